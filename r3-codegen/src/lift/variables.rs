//! Variables of the module and of functions.
