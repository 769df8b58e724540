"""One message to many: packets of a stream, repaired among receivers, in order."""
