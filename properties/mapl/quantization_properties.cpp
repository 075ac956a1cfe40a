// Z as indices of codewords (section 23.1).
#include <algorithm>
#include <cmath>

#include <truestep/problem/mix64.hpp>

#include "family.hpp"
#include "quantized_message.hpp"

namespace truestep::properties::mapl {

namespace {

/// Checks that no round of a micro-batch leaves more of a vector than there was, up to how far fp32 may
/// have been off when it chose.
void no_round_makes_it_worse(Trial& trial, const Quantizer<double>& quantizer, const Matrix<double>& Q,
                             const Matrix<double>& A, const Indices& chosen, Index boundary, Index micro) {
    Indices indices = chosen;
    const Matrix<double> Z = Q * A;
    quantizer.rounds(Z, indices, [&](const Matrix<double>& v, std::size_t book) {
        const Matrix<double> left = quantizer.residual(v, indices, book);
        for (Index token = 0; token < v.rows(); ++token) {
            const double slack = 1e-5 * (1.0 + Q.row(token).norm() + v.row(token).norm());
            trial.expect(left.row(token).norm() <= v.row(token).norm() + slack, 0, [&] {
                return boundary_text(boundary, key(0, micro, "book ")) + std::to_string(book) +
                       " leaves more of token " + std::to_string(token) + " than there was";
            });
        }
    });
}

/// Checks that what has passed once passes again with the same indices: with one round, and before anything
/// is learned.
void decoded_is_itself(Trial& trial) {
    const Case run = trial.run;
    Scenario again = trial.scenario;
    again.stage = [run, first = trial.seen](int stage) -> std::unique_ptr<Stage> {
        if (stage + 1 == run.workers)
            return made_up_stage(run, stage);
        return sends_first(made_up_stage(run, stage), [first, stage](Index micro) {
            return first[static_cast<std::size_t>(stage) + 1].at(key(0, micro, "Xhat"));
        });
    };
    const std::vector<RankRecording> seen = trial.play(again);
    for (Index boundary = 0; boundary < trial.scenario.boundaries(); ++boundary)
        trial.expect(coded(trial.scenario, seen, boundary, 0, 0).indices ==
                         coded(trial.scenario, trial.seen, boundary, 0, 0).indices,
                     0, [&] { return boundary_text(boundary, "what was decoded has other indices"); });
}

/// Checks that the other schedule, in which stages wait otherwise, sends the same in the first step's
/// forward pass.
void the_same_in_any_order(Trial& trial) {
    Scenario other = trial.scenario;
    other.run.schedule =
        trial.run.schedule == Schedule::gpipe ? Schedule::one_forward_one : Schedule::gpipe;
    const std::vector<RankRecording> seen = trial.play(other);
    for (std::size_t rank = 1; rank < seen.size(); ++rank)
        for (Index micro = 0; micro < trial.run.micro; ++micro)
            trial.same(trial.seen[rank].at(key(0, micro, "Xhat")), seen[rank].at(key(0, micro, "Xhat")), 0,
                       "on rank " + std::to_string(rank) + ", " + key(0, micro, "Xhat"),
                       "that of the other schedule");
}

/// Checks that late messages, and messages in parts, change nothing.
void the_same_under_any_delay(Trial& trial) {
    Scenario late = trial.scenario;
    late.held_back = true;
    trial.same(trial.seen, trial.play(late), "that of a run in which no message was held back");
}

/// Sends what another stage sends, times a power of two.
class Scaled final : public Stage {
  public:
    Scaled(std::unique_ptr<Stage> inner, float factor) : inner_(std::move(inner)), factor_(factor) {}
    Floats forward(Index step, Index micro, const Floats& arrived) override {
        Floats values = inner_->forward(step, micro, arrived);
        for (float& value : values)
            value *= factor_;
        return values;
    }
    Floats backward(Index step, Index micro, const Floats& gradient) override {
        return inner_->backward(step, micro, gradient);
    }

  private:
    std::unique_ptr<Stage> inner_;
    float factor_;
};

/// Runs a trial whose Z is exact, and judges its codewords: bit for bit.
void judged_as_the_rule(Trial& trial, Trial& other) {
    other.seen = other.play(other.scenario);
    for (Index boundary = 0; boundary < trial.scenario.boundaries(); ++boundary)
        static_cast<void>(codewords_are_exact(other, boundary, 0));
    trial.judged = other.judged;
}

/// Checks that values whose squares underflow get the codewords of the rule, too.
void the_nearest_of_tiny_ones(Trial& trial) {
    static constexpr float factor = 0x1p-73F;
    Trial tiny = trial;
    tiny.scenario.state = [inner = trial.scenario.state](Index boundary, Side side) {
        EndState state = inner(boundary, side);
        for (float& value : state.codebooks)
            value *= factor;
        return state;
    };
    tiny.scenario.stage = [inner = trial.scenario.stage](int stage) {
        return std::make_unique<Scaled>(inner(stage), factor);
    };
    judged_as_the_rule(trial, tiny);
}

/// Checks that |c|^2 - 2 v c in fp32 decides nothing where its rounding does: each value is little more
/// than 1, and the codewords differ by parts of its last bit, so some are as near as others and others not.
void the_nearest_of_near_ties(Trial& trial) {
    Trial close = trial;
    close.run.data = DataClass::dyadic;
    close.scenario = scenario_of(close.run);
    const auto bits_of = [seed = close.run.seed](Index what, std::size_t i) {
        return problem::mix64(problem::mix64(static_cast<std::uint64_t>(seed * 64 + what)) + i);
    };
    close.scenario.state = [bits_of, inner = close.scenario.state](Index boundary, Side side) {
        EndState state = inner(boundary, side);
        for (std::size_t i = 0; i < state.codebooks.size(); ++i)
            if (state.codebooks[i] != 0.0F) // of the first codewords all are 0
                state.codebooks[i] = static_cast<float>(16 + bits_of(boundary, i) % 64) * 0x1p-28F;
        return state;
    };
    close.scenario.stage = [bits_of, run = close.run, state = close.scenario.state](int stage) {
        return sends_first(made_up_stage(run, stage), [=](Index micro) {
            const Floats a = state(stage, Side::sender).a;
            const auto width = static_cast<std::size_t>(run.width);
            const auto rank = static_cast<std::size_t>(run.rank);
            Floats x(static_cast<std::size_t>(tokens_of(run, 0, micro)) * width, 0.0F);
            for (std::size_t i = 0; i < x.size(); ++i) // Z A^T, of which Z is this again: sums are exact
                for (std::size_t k = 0; k < rank; ++k)
                    x[i] += (1.0F + static_cast<float>(bits_of(32 + micro, i / width * rank + k) % 16384) *
                                        0x1p-18F) *
                            a[i % width * rank + k];
            return x;
        });
    };
    judged_as_the_rule(trial, close);
}

/// Checks that the first codewords of round k are 2^-k times those that groups in place of rounds would
/// have.
void first_codewords_get_finer(Trial& trial, const Settings& settings) {
    const auto rounds = static_cast<std::size_t>(settings.quantization.rounds);
    Settings flat = settings;
    flat.rank *= settings.quantization.rounds;
    flat.quantization.groups *= settings.quantization.rounds;
    flat.quantization.rounds = 1;
    Floats expected = first_codebooks(flat);
    const std::size_t book = expected.size() / static_cast<std::size_t>(flat.quantization.groups);
    for (std::size_t i = 0; i < expected.size(); ++i)
        expected[i] = std::ldexp(expected[i], -static_cast<int>(i / book % rounds));
    trial.same(expected, first_codebooks(settings), 0, "the first codebooks",
               "those of groups in place of rounds");
}

// 14.
void quantization(Trial& trial) {
    const Case& run = trial.run;
    first_codewords_get_finer(trial, trial.scenario.settings(0, Side::sender));
    trial.seen = trial.play(trial.scenario);
    for (Index boundary = 0; boundary < trial.scenario.boundaries(); ++boundary) {
        const auto b = static_cast<std::size_t>(boundary);
        const Settings settings = trial.scenario.settings(boundary, Side::sender);
        const Boundary<double> sides = shown_boundary<double>(trial, boundary, 0);
        Quantizer<double> quantizer{settings,
                                    Quantizer<double>::books(settings, trial.seen[b].at(key(0, "s.C")))};
        for (Index micro = 0; micro < run.micro; ++micro) {
            const QuantizedMessage wire = coded(trial.scenario, trial.seen, boundary, 0, micro);
            trial.expect(wire.cannot_be.empty(), 0,
                         [&] { return boundary_text(boundary, key(0, micro, wire.cannot_be)); });
            const Matrix<double> X = matrix_of(trial.seen[b].at(key(0, micro, "X")), run.width);
            no_round_makes_it_worse(trial, quantizer, sides.less_anchor(X, ids_of(trial, 0, micro)),
                                    sides.A, wire.indices, boundary, micro);
            // The receiver decoded with the codewords from before those that came along.
            const Matrix<double> Xhat =
                sides.decompressed(quantizer.decoded(wire.indices), ids_of(trial, 0, micro));
            trial.near(Xhat, matrix_of(trial.seen[b + 1].at(key(0, micro, "Xhat")), run.width),
                       1e-4 * (1.0 + Xhat.norm()), 0,
                       boundary_text(boundary, key(0, micro, "Xhat of the indices that travelled")));
            const float* from = wire.codewords.data();
            for (Matrix<double>& book : quantizer.C)
                for (const Word word : travelling(settings, micro))
                    for (Index i = 0; i < book.cols(); ++i)
                        book(word, i) = static_cast<double>(*from++);
        }
    }
    if (run.rounds == 1 && run.anchors == Anchors::none && run.micro > 0)
        decoded_is_itself(trial);
    the_same_in_any_order(trial);
    the_same_under_any_delay(trial);
    if (run.anchors == Anchors::none)
        (run.dyadic() ? the_nearest_of_tiny_ones : the_nearest_of_near_ties)(trial);
}
Case quantized(Case run) {
    if (run.codewords == 0) {
        run.codewords = 4 + run.seed % 8;
        run.rounds = 1 + run.seed % 3;
        run.subsets = run.seed % 2 == 0 ? 1 : run.codewords;
    }
    run.steps = 1;
    run.restart = 0;
    return run;
}

} // namespace

std::vector<gate::Property> quantization_properties() {
    return {property(14, "quantization",
                     "Indices are those of codewords that both sides have; rounds make nothing worse.",
                     quantization, {{"codewords", 95}, {"several rounds", 40}, {"streamed", 30}, "anchors"},
                     quantized)};
}

} // namespace truestep::properties::mapl
