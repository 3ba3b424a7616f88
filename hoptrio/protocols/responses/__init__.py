"""OpenAI Responses (protocols: responses). Named events; one of completed, incomplete, failed ends the stream."""
