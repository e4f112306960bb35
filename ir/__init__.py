"""What is computed: expressions, programs, the expression language, loop nests, the NumPy reference."""
