"""Front ends of the workbench: figures, a canvas with draggable points, and views for notebooks and pages."""
