"""Papers whose content is a law, a bound or a cost model: one file each, found by walking this folder. A file whose
name begins with an underscore is a helper."""
