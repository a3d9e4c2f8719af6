"""The shipped notebooks, their presets and baselines. They are data: nothing here is imported."""
