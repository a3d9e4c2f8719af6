"""Foreign models and energies as the workbench sees them, one file a family; third-party imports inside."""
