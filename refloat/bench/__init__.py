"""`refloat bench`: the server beside the bare engine, in the same run, in interleaved rounds."""
