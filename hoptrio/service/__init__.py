"""The composition root: what is built, nested in the order of dying (`run`), and how it is drained."""
