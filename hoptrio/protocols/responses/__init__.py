"""The Responses protocol: request rules, the reader of its answers, its error shapes. Sans-IO."""
