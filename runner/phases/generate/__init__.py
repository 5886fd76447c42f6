"""generate: taxonomy draws become verified tasks, one gate after another; every draw ends with one reason code."""
