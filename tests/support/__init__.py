"""What several test rooms share, in packages by what it is."""
