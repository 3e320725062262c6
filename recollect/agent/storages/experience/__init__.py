"""The parts that storages are made of: arrays in, arrays out."""
