//! What models are asked, and what is made of their answers.
