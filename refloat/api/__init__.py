"""HTTP: routes, dialects, errors. Translates, and decides nothing about generations or workers."""
