"""An accelerated hour of single tables on the real stack, beside what the simulator foretells."""
