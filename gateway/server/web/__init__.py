"""Web workbench: a page of static modules over the public protocol."""
