"""What clients were told, kept for those who come back: bounded in memory, then in files, for a while after the end."""
