//! Who should hear: one encoding, one envelope per node.
