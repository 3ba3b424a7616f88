"""Evidence and price. Pure: no I/O, no clock, no float."""
