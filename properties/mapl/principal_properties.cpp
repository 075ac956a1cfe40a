// What A is trained to: section 27's PCA.
#include <algorithm>
#include <cmath>
#include <map>

#include <truestep/verify/decomposition.hpp>

#include "family.hpp"

namespace truestep::properties::mapl {

namespace {

constexpr double first_rate = 0.1;

/// X of a boundary's micro-batch, the same in each step. Features behind the first r have a sixteenth of
/// the energy, so that the principal directions stand out.
Floats sent_again(const Case& run, Index boundary, Index micro) {
    Floats x =
        synthetic(run, 9100 + static_cast<std::uint64_t>(boundary), 0, micro, run.tokens * run.width);
    for (std::size_t i = 0; i < x.size(); ++i)
        if (static_cast<Index>(i) % run.width >= run.rank)
            x[i] *= 0.25F;
    return x;
}

/// A stage whose loss is that of reconstruction only: |Xhat - X|^2 / 2.
class Reconstructs final : public Stage {
  public:
    Reconstructs(const Case& run, int stage) : run_(run), stage_(stage) {}
    Floats forward(Index /*step*/, Index micro, const Floats& arrived) override {
        if (stage_ > 0) {
            Floats& off = off_[micro] = arrived;
            const Floats x = sent_again(run_, stage_ - 1, micro);
            for (std::size_t i = 0; i < off.size() && i < x.size(); ++i)
                off[i] -= x[i];
        }
        return sent_again(run_, stage_, micro);
    }
    Floats backward(Index /*step*/, Index micro, const Floats& /*gradient*/) override {
        return off_[micro];
    }

  private:
    Case run_;
    int stage_;
    std::map<Index, Floats> off_; ///< Xhat - X
};

/// Checks the first gradient: -(I - A A^T) X^T X A. All of it is the receiver's part, since dZ is 0.
void closed_form(Trial& trial, Index boundary, const Matrix<double>& squares) {
    const auto b = static_cast<std::size_t>(boundary);
    const Index r = trial.run.rank;
    const double tolerance = manifold_tolerance(trial.run.width, r);
    const Matrix<double> A = matrix_of(trial.seen[b].at(key(0, "s.A")), r);
    const Matrix<double> caught = squares * A;
    trial.near(A * (A.transpose() * caught) - caught, matrix_of(trial.seen[b].at(key(0, "s.gA")), r),
               tolerance * squares.trace(), 0, boundary_text(boundary, "the gradient of reconstruction"));
    for (Index micro = 0; micro < trial.run.micro; ++micro) {
        const Matrix<double> dZ = matrix_of(trial.sent(trial.seen, boundary, 0, micro, false).values, r);
        trial.near(Matrix<double>::Zero(trial.run.tokens, r), dZ, tolerance * std::sqrt(squares.trace()), 0,
                   boundary_text(boundary, key(0, micro, "dZ of reconstruction, which teaches nothing")));
    }
}

// 7. A catches the energy of the greatest singular vectors.
void principal_subspace(Trial& trial) {
    const Case run = trial.run;
    trial.scenario.stage = [run](int stage) { return std::make_unique<Reconstructs>(run, stage); };
    // m overshoots for some ten steps, and the rates of these steps limit how far off A is in the end:
    // about a thousandth each. The energy is off by the square of their sum.
    trial.scenario.falling_rate = [run](Index step) {
        const double left = static_cast<double>(run.steps - step) / static_cast<double>(run.steps);
        return first_rate * left * left;
    };
    trial.scenario.settings = [inner = trial.scenario.settings](Index boundary, Side side) {
        Settings settings = inner(boundary, side);
        settings.beta = 0.9;
        settings.direction_iterations = Settings{}.direction_iterations;
        return settings;
    };
    trial.seen = trial.play(trial.scenario);
    for (Index boundary = 0; boundary < trial.scenario.boundaries(); ++boundary) {
        Matrix<double> squares = Matrix<double>::Zero(run.width, run.width);
        for (Index micro = 0; micro < run.micro; ++micro) {
            const Matrix<double> X = matrix_of(sent_again(run, boundary, micro), run.width);
            squares += X.transpose() * X;
        }
        closed_form(trial, boundary, squares);
        const Matrix<double> A =
            matrix_of(trial.seen[static_cast<std::size_t>(boundary)].at(key(run.steps, "s.A")), run.rank);
        const double best = verify::singular_parts(squares).values.head(run.rank).sum();
        const double caught = (A.transpose() * squares * A).trace();
        trial.near(Matrix<double>::Constant(1, 1, best), Matrix<double>::Constant(1, 1, caught),
                   1e-3 * best, run.steps,
                   boundary_text(boundary, "the energy in A's span, beside that of the " +
                                               std::to_string(run.rank) + " greatest singular vectors"));
    }
}
Case reconstructed(Case run) {
    run = nothing_lost(run);
    run.data = DataClass::normal; // dyadic columns may be 0 or at right angles, where A rests on a saddle
    run.anchors = Anchors::none;
    run.workers = 2;
    run.width = std::max<Index>(run.width, run.rank + 1);
    run.tokens = std::max<Index>(run.tokens, 3 * run.width);
    run.micro = std::clamp<Index>(run.micro, 1, 2);
    run.steps = 100;
    run.restart = 0;
    return run;
}

} // namespace

std::vector<gate::Property> principal_properties() {
    return {property(7, "principal", "Of reconstruction alone A learns the greatest singular vectors.",
                     principal_subspace, {{"compressed", 95}, {"several micro-batches", 30}},
                     reconstructed)};
}

} // namespace truestep::properties::mapl
