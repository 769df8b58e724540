"""What may be sent more than once, and is delivered once: by producers, with ids, by clients.

Entered by `site`.
"""
