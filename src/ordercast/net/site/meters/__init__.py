"""What a running site counts and times for its operators."""
