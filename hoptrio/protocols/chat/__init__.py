"""OpenAI Chat Completions (protocols: chat). Only ``data:`` lines; the terminal is ``data: [DONE]``."""
