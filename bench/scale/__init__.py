"""Many tables and several workers on the whole stack."""
