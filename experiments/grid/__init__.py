"""The grid: every way of writing numbers (rows) on every arithmetic operation (columns). See README.md."""
