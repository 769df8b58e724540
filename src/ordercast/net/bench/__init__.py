"""`ordercast bench`: real processes under load, timed. Enters by public faces, as a user would."""
