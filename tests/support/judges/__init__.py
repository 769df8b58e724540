"""What decides whether a run went well, independent of the code under test where that matters."""
