#pragma once

#include <cmath>
#include <vector>

#include <truestep/distributed/mapl/products.hpp>
#include <truestep/distributed/mapl/spel_step.hpp>
#include <truestep/gpu/mapl/devices.hpp>

#include "algorithms/subspace.hpp"

namespace truestep::gpu::mapl {

/// SPEL over a machine: the launches that correspond to spel_step.cpp, in its order.
template <class Machine, class Products>
class Spel {
  public:
    using Vector = typename Machine::template Vector<float>;

    void begin(Machine& machine, const Settings& settings) {
        settings_ = settings;
        width_ = static_cast<std::size_t>(settings.width);
        rank_ = static_cast<std::size_t>(settings.rank);
        size_ = settings.width * settings.rank;
        for (Vector* vector : {&moment_, &x_, &made_})
            machine.resize(*vector, size_);
        for (Vector* vector : {&square_, &inner_})
            machine.resize(*vector, settings.rank * settings.rank);
        machine.resize(sums_, boundary::tiles_of(size_));
    }

    /// Leaves the new m and A in `moment` and `x`, and sets a flag if they are not finite.
    void step(Machine& machine, Products& products, const Vector& gradient, const Vector& a,
              const Vector& m, double rate, std::uint32_t* not_finite) {
        const bool first = settings_.order == Order::project_first;
        machine.fetch(moment_.data(), gradient.data(), size_);
        if (first)
            project(machine, products, a, moment_);
        blend(machine, static_cast<float>(settings_.beta), m, static_cast<float>(1.0 - settings_.beta),
              moment_, moment_);
        machine.fetch(x_.data(), moment_.data(), size_);
        if (!first)
            project(machine, products, a, x_);
        polar(machine, products);
        blend(machine, 1.0F, a, -static_cast<float>(rate), x_, x_);
        for (int t = 0; t < settings_.retraction_iterations; ++t)
            iterate(machine, products, endless_polynomial, 1.0);
        for (const Vector* made : {&moment_, &x_})
            machine.template run<boundary::Check>(blocks(), {size_, made->data(), not_finite});
    }

    Vector& moment() { return moment_; }
    Vector& x() { return x_; }

  private:
    [[nodiscard]] Index blocks() const { return boundary::tiles_of(size_); }
    [[nodiscard]] Index square_blocks() const { return boundary::tiles_of(square_.size()); }

    void blend(Machine& machine, float a, const Vector& x, float b, const Vector& y, Vector& to) {
        machine.template run<boundary::Blend>(blocks(), {size_, a, x.data(), b, y.data(), to.data()});
    }

    /// x becomes x - A sym(A^T x).
    void project(Machine& machine, Products& products, const Vector& a, Vector& x) {
        products.multiply({.rows = rank_, .columns = rank_, .inner = width_, .first_transposed = true},
                          a.data(), x.data(), square_.data());
        machine.template run<boundary::Symmetrize>(square_blocks(),
                                                   {settings_.rank, square_.data(), inner_.data()});
        products.multiply({.rows = width_, .columns = rank_, .inner = rank_, .factor = -1.0F, .keep = true},
                          a.data(), inner_.data(), x.data());
    }

    void polar(Machine& machine, Products& products) {
        machine.template run<boundary::SquareSums>(blocks(), {size_, x_.data(), sums_.data()});
        std::vector<double> sums(static_cast<std::size_t>(blocks()));
        machine.download(sums.data(), sums_.data(), blocks());
        double sum = 0.0;
        for (const double of_tile : sums)
            sum += of_tile;
        machine.template run<boundary::ScaleBy>(blocks(),
                                                {size_, 1.0 / (1.01 * std::sqrt(sum) + 1e-7), x_.data()});
        for (int t = 0; t < settings_.direction_iterations; ++t)
            if (static_cast<std::size_t>(t) < polar_polynomials.size())
                iterate(machine, products, polar_polynomials[static_cast<std::size_t>(t)], 1.01);
            else
                iterate(machine, products, endless_polynomial, 1.0);
    }

    void iterate(Machine& machine, Products& products, const OddPolynomial& c, double margin) {
        const auto [c0, c1, c2] = scaled_polynomial(c, margin);
        products.multiply({.rows = rank_, .columns = rank_, .inner = width_, .first_transposed = true},
                          x_.data(), x_.data(), square_.data());
        products.multiply({.rows = rank_, .columns = rank_, .inner = rank_, .factor = c2}, square_.data(),
                          square_.data(), inner_.data());
        machine.template run<boundary::Polynomial>(square_blocks(),
                                                   {settings_.rank, c0, c1, square_.data(), inner_.data()});
        products.multiply({.rows = width_, .columns = rank_, .inner = rank_}, x_.data(), inner_.data(),
                          made_.data());
        x_.swap(made_);
    }

    Settings settings_;
    std::size_t width_ = 0;
    std::size_t rank_ = 0;
    Index size_ = 0;
    Vector moment_, x_, made_;
    Vector square_, inner_;
    typename Machine::template Vector<double> sums_;
};

} // namespace truestep::gpu::mapl
