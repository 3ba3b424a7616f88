"""What the bytes mean: four protocols, sans-IO. `rules` is what each of them implements."""
