// The Wilson hopping term on a periodic 4-D lattice with SU(3) links, each output site divided by its
// norm: out(x) = scale * h(x) / sqrt(|h(x)|^2), where
//   h(x) = sum over mu of U_mu(x) (1 - gamma_mu) psi(x + mu) + U_mu(x - mu)^+ (1 + gamma_mu) psi(x - mu).
// Projected to two spin components before the colour multiplication, as lattice codes do.
#include "sample.h"

struct Complex {
    float re, im;
};

__host__ __device__ inline Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
__host__ __device__ inline Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
__host__ __device__ inline Complex operator*(Complex a, Complex b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
__host__ __device__ inline Complex conj(Complex a) { return {a.re, -a.im}; }
__host__ __device__ inline Complex times_i(Complex a) { return {-a.im, a.re}; }

struct Link {
    Complex u[3][3];
};
struct Spinor {
    Complex s[4][3];
};
struct Lattice {
    int extent[4];
};

__host__ __device__ inline int neighbour(const Lattice &lattice, int site, int mu, int step) {
    int stride = 1;
    for (int i = 0; i < mu; ++i) {
        stride *= lattice.extent[i];
    }
    int at = site / stride % lattice.extent[mu];
    int to = (at + step + lattice.extent[mu]) % lattice.extent[mu];
    return site + (to - at) * stride;
}

// Adds U (1 -+ gamma_mu) psi: `sign` is -1 for the forward hop and +1 for the backward one. In the
// DeGrand-Rossi basis the lower two spins of the projected spinor follow from the upper two.
template <int MU>
__host__ __device__ inline void hop(const Link &link, bool dagger, float sign, const Spinor &psi, Spinor &sum) {
    Complex half[2][3], moved[2][3];
    for (int c = 0; c < 3; ++c) {
        Complex p0, p1;
        if (MU == 0) {
            p0 = times_i(psi.s[3][c]);
            p1 = times_i(psi.s[2][c]);
        } else if (MU == 1) {
            p0 = Complex{-psi.s[3][c].re, -psi.s[3][c].im};
            p1 = psi.s[2][c];
        } else if (MU == 2) {
            p0 = times_i(psi.s[2][c]);
            p1 = Complex{psi.s[3][c].im, -psi.s[3][c].re};
        } else {
            p0 = psi.s[2][c];
            p1 = psi.s[3][c];
        }
        half[0][c] = psi.s[0][c] + Complex{sign * p0.re, sign * p0.im};
        half[1][c] = psi.s[1][c] + Complex{sign * p1.re, sign * p1.im};
    }
    for (int spin = 0; spin < 2; ++spin) {
        for (int row = 0; row < 3; ++row) {
            Complex total = {0.0f, 0.0f};
            for (int column = 0; column < 3; ++column) {
                Complex u = dagger ? conj(link.u[column][row]) : link.u[row][column];
                total = total + u * half[spin][column];
            }
            moved[spin][row] = total;
        }
    }
    for (int c = 0; c < 3; ++c) {
        Complex low2, low3;
        if (MU == 0) {
            low2 = times_i(moved[1][c]);
            low3 = times_i(moved[0][c]);
            low2 = Complex{-low2.re, -low2.im};
            low3 = Complex{-low3.re, -low3.im};
        } else if (MU == 1) {
            low2 = moved[1][c];
            low3 = Complex{-moved[0][c].re, -moved[0][c].im};
        } else if (MU == 2) {
            low2 = Complex{moved[0][c].im, -moved[0][c].re};
            low3 = times_i(moved[1][c]);
        } else {
            low2 = moved[0][c];
            low3 = moved[1][c];
        }
        sum.s[0][c] = sum.s[0][c] + moved[0][c];
        sum.s[1][c] = sum.s[1][c] + moved[1][c];
        sum.s[2][c] = sum.s[2][c] + Complex{sign * low2.re, sign * low2.im};
        sum.s[3][c] = sum.s[3][c] + Complex{sign * low3.re, sign * low3.im};
    }
}

template <int MU>
__host__ __device__ inline void hops(const Lattice &lattice, const Link *links, const Spinor *in, int site, Spinor &sum) {
    int forward = neighbour(lattice, site, MU, 1), backward = neighbour(lattice, site, MU, -1);
    hop<MU>(links[4 * site + MU], false, -1.0f, in[forward], sum);
    hop<MU>(links[4 * backward + MU], true, 1.0f, in[backward], sum);
}

__host__ __device__ inline Spinor hopping(const Lattice &lattice, const Link *links, const Spinor *in, int site) {
    Spinor sum = {};
    hops<0>(lattice, links, in, site, sum);
    hops<1>(lattice, links, in, site, sum);
    hops<2>(lattice, links, in, site, sum);
    hops<3>(lattice, links, in, site, sum);
    return sum;
}

__host__ __device__ inline Spinor normalised(Spinor value, float scale) {
    float square = 0.0f;
    for (int spin = 0; spin < 4; ++spin) {
        for (int c = 0; c < 3; ++c) {
            square += value.s[spin][c].re * value.s[spin][c].re + value.s[spin][c].im * value.s[spin][c].im;
        }
    }
    for (int spin = 0; spin < 4; ++spin) {
        for (int c = 0; c < 3; ++c) {
            value.s[spin][c].re = scale * value.s[spin][c].re / sqrtf(square);
            value.s[spin][c].im = scale * value.s[spin][c].im / sqrtf(square);
        }
    }
    return value;
}

__global__ void dslash(Lattice lattice, const Link *links, const Spinor *in, Spinor *out, int sites, float scale) {
    int site = blockIdx.x * blockDim.x + threadIdx.x;
    if (site < sites) {
        out[site] = normalised(hopping(lattice, links, in, site), scale);
    }
}

// A random matrix made unitary with determinant 1: Gram-Schmidt, third row from the first two.
static Link random_link(int index) {
    Link link;
    for (int row = 0; row < 2; ++row) {
        for (int c = 0; c < 3; ++c) {
            link.u[row][c] = {noise(18 * index + 6 * row + 2 * c, 1), noise(18 * index + 6 * row + 2 * c + 1, 1)};
        }
        for (int before = 0; before < row; ++before) {
            Complex dot = {0, 0};
            for (int c = 0; c < 3; ++c) {
                dot = dot + conj(link.u[before][c]) * link.u[row][c];
            }
            for (int c = 0; c < 3; ++c) {
                link.u[row][c] = link.u[row][c] - dot * link.u[before][c];
            }
        }
        float square = 0;
        for (int c = 0; c < 3; ++c) {
            square += link.u[row][c].re * link.u[row][c].re + link.u[row][c].im * link.u[row][c].im;
        }
        for (int c = 0; c < 3; ++c) {
            link.u[row][c] = {link.u[row][c].re / sqrtf(square), link.u[row][c].im / sqrtf(square)};
        }
    }
    for (int c = 0; c < 3; ++c) {
        int d = (c + 1) % 3, e = (c + 2) % 3;
        link.u[2][c] = conj(link.u[0][d] * link.u[1][e] - link.u[0][e] * link.u[1][d]);
    }
    return link;
}

// With unit links and a constant field the projectors of each direction add up to 2, so that the
// hopping term is 8 psi: this catches a wrong sign in the spin algebra above.
static bool algebra_holds(const Lattice &lattice, int sites) {
    Link unit = {};
    for (int c = 0; c < 3; ++c) {
        unit.u[c][c].re = 1.0f;
    }
    Spinor psi;
    for (int i = 0; i < 12; ++i) {
        psi.s[i / 3][i % 3] = {static_cast<float>(i + 1), static_cast<float>(3 - i)};
    }
    std::vector<Link> links(4 * sites, unit);
    std::vector<Spinor> field(sites, psi);
    Spinor out = hopping(lattice, links.data(), field.data(), sites / 2);
    for (int i = 0; i < 12; ++i) {
        Complex got = out.s[i / 3][i % 3], want = psi.s[i / 3][i % 3];
        if (got.re != 8 * want.re || got.im != 8 * want.im) {
            return false;
        }
    }
    return true;
}

int main(int argc, char **argv) {
    const int extent = argument(argc, argv, 1, 4);
    const int applications = argument(argc, argv, 2, 3);
    const Lattice lattice = {{extent, extent, extent, extent}};
    const int sites = extent * extent * extent * extent;

    std::vector<Link> links(4 * sites);
    std::vector<Spinor> field(sites), next(sites);
    for (int i = 0; i < 4 * sites; ++i) {
        links[i] = random_link(i);
    }
    for (int i = 0; i < 12 * sites; ++i) {
        field[i / 12].s[i % 12 / 3][i % 3] = {noise(2 * i, 2), noise(2 * i + 1, 2)};
    }
    Link *device_links = device_copy(links);
    Spinor *buffers[2] = {device_copy(field), nullptr};
    CHECK(cudaMalloc(&buffers[1], sites * sizeof(Spinor)));
    CHECK(cudaMemset(buffers[1], 0, sites * sizeof(Spinor)));
    for (int i = 0; i < applications; ++i) {
        dslash<<<(sites + 63) / 64, 64>>>(lattice, device_links, buffers[i % 2], buffers[(i + 1) % 2], sites, 2.0f);
        CHECK(cudaGetLastError());
        for (int site = 0; site < sites; ++site) {
            next[site] = normalised(hopping(lattice, links.data(), field.data(), site), 2.0f);
        }
        field.swap(next);
    }
    std::vector<Spinor> got = host_copy(buffers[applications % 2], sites);
    double error = largest_error(&got[0].s[0][0].re, &field[0].s[0][0].re, 24 * sites);
    return result("wilson", algebra_holds(lattice, sites) && error < 1e-4, checksum(got));
}
