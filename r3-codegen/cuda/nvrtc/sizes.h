// `std::size_t` for NVRTC, which has no <cstddef>.
#pragma once
namespace std {
typedef decltype(sizeof(0)) size_t;
typedef decltype((char *)0 - (char *)0) ptrdiff_t;
typedef decltype(nullptr) nullptr_t;
}  // namespace std
#ifndef offsetof
#define offsetof(type, member) __builtin_offsetof(type, member)
#endif
