"""What a running site counts and times for its operators.

Entered by `site`, and by `client`, which keeps as many passages as a site.
"""
