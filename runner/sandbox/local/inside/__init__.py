"""What runs inside a local sandbox, before and below everything else there. Only the standard library is at hand."""
