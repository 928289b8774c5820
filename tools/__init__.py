"""Programs for the development of aioproducer, which its users do not need."""
