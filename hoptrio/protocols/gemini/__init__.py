"""Gemini generateContent and streamGenerateContent: what its bytes mean. Sans-IO; composed into one `Rules` object by
`protocols.registry`."""
