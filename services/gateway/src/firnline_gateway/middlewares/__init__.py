"""The steps that every call passes, one in each module; `chain` orders them."""
