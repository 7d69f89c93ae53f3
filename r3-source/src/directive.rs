//! How a kernel wants to be launched, said in a comment: `// r3: launch block=128,1,1 grid=scale 1/4`.
