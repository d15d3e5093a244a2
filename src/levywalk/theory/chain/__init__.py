"""The Markov chain of a walk: its matrix, its stationary law, its spectral gaps and its times."""
