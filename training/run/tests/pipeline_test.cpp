// Boundaries between stages, beside the ends that send messages and beside differences in double.
#include <cmath>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <scape/distributed/counting_peers.hpp>
#include <scape/distributed/in_process_peers.hpp>
#include <scape/mapl/boundary.hpp>
#include <scape/mapl/ends.hpp>
#include <scape/problem/error.hpp>
#include <scape/training/draw.hpp>

#include "optimizer.hpp"
#include "peers/links.hpp"
#include "pipeline.hpp"

namespace scape::training {
namespace {

using mapl::Floats;
using mapl::Side;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::uint64_t seed = 6;

/// Between -1 and 1, from these numbers.
float value(std::uint64_t what, std::size_t at) {
    return static_cast<float>(static_cast<double>(drawn({what, at}) >> 11U) * 0x1p-52 - 1);
}

Floats values(std::uint64_t what, std::size_t size) {
    Floats made(size);
    for (std::size_t i = 0; i < size; ++i)
        made[i] = value(what, i);
    return made;
}

std::vector<std::uint8_t> symbols(std::size_t size, std::size_t below) {
    std::vector<std::uint8_t> made(size);
    for (std::size_t i = 0; i < size; ++i)
        made[i] = static_cast<std::uint8_t>(drawn({11, i}) % below);
    return made;
}

Plan small() {
    Plan plan;
    plan.shape = {7, 6, 8, 2, 2};
    plan.stages = 2;
    plan.ranks = 1;
    return plan;
}

constexpr std::size_t tokens = 12;
constexpr double rate = 0.3;

/// What one boundary makes of three steps, one after the other.
struct Made {
    std::vector<Floats> all;
    std::uint64_t bytes = 0;
};

/// Of each step other activations, gradients and tables.
Floats activations(std::size_t step) {
    return values(100 + step, tokens * 8);
}
Floats gradients(std::size_t step) {
    return values(200 + step, tokens * 8);
}
Floats tables(std::size_t step, std::size_t rank) {
    return values(300 + step, 2 * 7 * rank);
}

Made by_passes(const Compression& compression) {
    Made made;
    peers::run_linked(1, [&](const peers::Links& links) {
        Pipeline pipeline(small(), compression, seed, links);
        for (std::size_t step = 0; step < 3; ++step) {
            const Floats anchors = tables(step, pipeline.rank());
            Floats anchor_gradients(anchors.size(), 1.0F); // which is not to be added to
            pipeline.begin(symbols(tokens, 7), anchors, anchor_gradients);
            Floats x = activations(step);
            pipeline.forward(0, x.data());
            made.all.push_back(x);
            Floats g = gradients(step);
            pipeline.backward(0, g.data());
            made.all.push_back(g);
            made.all.push_back(anchor_gradients);
            pipeline.end_step(rate);
            const auto a = pipeline.subspace(0);
            made.all.emplace_back(a.begin(), a.end());
        }
        made.bytes = pipeline.sent();
    });
    return made;
}

Made by_messages(const Compression& compression) {
    const mapl::Settings settings = boundary_settings(small().shape, compression, 0, seed);
    const Floats start = mapl::first_subspace(settings.width, settings.rank, settings.seed);
    const auto rank = static_cast<std::size_t>(settings.rank);
    const std::vector<std::uint8_t> drawn_symbols = symbols(tokens, 7);
    const std::vector<mapl::Id> ids(drawn_symbols.begin(), drawn_symbols.end());
    const auto table = [&](std::size_t step, Side side) {
        const Floats both = tables(step, rank);
        const auto half = static_cast<std::ptrdiff_t>(both.size() / 2);
        return side == Side::sender ? Floats(both.begin(), both.begin() + half)
                                    : Floats(both.begin() + half, both.end());
    };
    std::vector<std::vector<Floats>> seen(2);
    std::vector<std::uint64_t> bytes(2);
    distributed::run_peers(2, [&](distributed::Peers& inner) {
        distributed::CountingPeers peers(inner);
        const bool sends = peers.rank() == 0;
        auto& mine = seen[static_cast<std::size_t>(peers.rank())];
        const Side side = sends ? Side::sender : Side::receiver;
        mapl::EndState state = first_state(settings, side, start, table(0, side));
        const auto each_step = [&](auto& end, const auto& step_of) {
            peers.reset(); // the agreement
            for (std::size_t step = 0; step < 3; ++step) {
                end.set_anchor(table(step, side));
                step_of(step);
            }
            mine.push_back(end.subspace()); // the receiver waits for its last one
        };
        if (sends) {
            mapl::Sender sender(settings, std::move(state), peers, 1);
            each_step(sender, [&](std::size_t step) {
                sender.forward(0, activations(step), ids);
                mine.push_back(sender.backward(0));
                EXPECT_TRUE(sender.end_step(compression.rate * rate));
                mine.push_back(sender.anchor_gradient());
                mine.push_back(sender.subspace());
            });
        } else {
            mapl::Receiver receiver(settings, std::move(state), peers, 0);
            each_step(receiver, [&](std::size_t step) {
                mine.push_back(receiver.forward(0, tokens).activations);
                receiver.backward(0, gradients(step));
                receiver.end_step();
                mine.push_back(receiver.anchor_gradient());
            });
        }
        for (const std::uint64_t kind : peers.bytes())
            bytes[static_cast<std::size_t>(peers.rank())] += kind;
    });
    EXPECT_EQ(seen[0].back(), seen[1].back());
    Made made{{}, bytes[0] + bytes[1]};
    for (std::size_t step = 0; step < 3; ++step) {
        Floats of_tables = seen[0][3 * step + 1];
        const Floats& receivers = seen[1][2 * step + 1];
        of_tables.insert(of_tables.end(), receivers.begin(), receivers.end());
        for (const Floats& one : {seen[1][2 * step], seen[0][3 * step], of_tables, seen[0][3 * step + 2]})
            made.all.push_back(one);
    }
    return made;
}

TEST(Pipeline, HasTheBitsAndTheBytesOfEndsThatSendMessages) {
    for (const std::size_t times : {1U, 2U, 4U}) {
        const Compression compression{Subspace::mapl, times, 0.1};
        const Made passes = by_passes(compression);
        const Made messages = by_messages(compression);
        ASSERT_EQ(passes.all.size(), messages.all.size());
        for (std::size_t i = 0; i < passes.all.size(); ++i)
            EXPECT_EQ(passes.all[i], messages.all[i])
                << times << " times, step " << i / 4 << ", part " << i % 4;
        EXPECT_EQ(passes.bytes, messages.bytes);
    }
}

TEST(Pipeline, LeavesTheManifoldOnlyWhereItIsFree) {
    const auto last = [](Subspace subspace) { return by_passes({subspace, 4, 0.1}).all.back(); };
    const Floats first =
        mapl::first_subspace(8, 2, boundary_settings(small().shape, {.times = 4}, 0, seed).seed);
    EXPECT_EQ(last(Subspace::fixed), first);
    EXPECT_NE(last(Subspace::mapl), first);
    EXPECT_LE(mapl::distance_to_manifold(last(Subspace::mapl), 2), mapl::manifold_tolerance(8, 2));
    EXPECT_GT(mapl::distance_to_manifold(last(Subspace::free), 2), 0.01);
    // What does not follow is not sent, either.
    EXPECT_EQ(by_passes({Subspace::mapl, 4, 0.1}).bytes - by_passes({Subspace::fixed, 4, 0.1}).bytes,
              3U * 2 * 8 * 2 * sizeof(float));
}

// Section 22.1: A follows the mean over replicas, and is the same on all.
TEST(Pipeline, HasOneSubspaceOverAllRanks) {
    for (const Subspace subspace : {Subspace::mapl, Subspace::free}) {
        std::map<std::string, Floats> of;
        const auto step = [&](const peers::Links& links, bool apart, const std::string& name) {
            const auto own = apart ? static_cast<std::size_t>(links.all.rank()) : 0;
            Pipeline pipeline(small(), Compression{subspace, 4, 0.1}, seed, links);
            const Floats anchors = tables(0, pipeline.rank());
            Floats anchor_gradients(anchors.size());
            pipeline.begin(symbols(tokens, 7), anchors, anchor_gradients);
            Floats x = activations(own);
            pipeline.forward(0, x.data());
            Floats g = gradients(own);
            pipeline.backward(0, g.data());
            pipeline.end_step(rate);
            const auto a = pipeline.subspace(0);
            return std::pair(name + std::to_string(links.all.rank()), Floats(a.begin(), a.end()));
        };
        std::vector<std::pair<std::string, Floats>> made(5);
        peers::run_linked(2, [&](const peers::Links& links) {
            const auto rank = static_cast<std::size_t>(links.all.rank());
            made[rank] = step(links, true, "apart");
            made[2 + rank] = step(links, false, "alike");
        });
        peers::run_linked(1, [&](const peers::Links& links) { made[4] = step(links, false, "alone"); });
        for (const auto& [name, a] : made)
            of[name] = a;
        EXPECT_EQ(of.at("apart0"), of.at("apart1"));
        EXPECT_NE(of.at("apart0"), of.at("alone0"));
        EXPECT_EQ(of.at("alike0"), of.at("alone0")); // the mean of two that are alike
    }
}

TEST(Pipeline, IsCutIntoStagesAsEqualAsCanBe) {
    EXPECT_THAT(cuts(4, 4), ElementsAre(0, 1, 2));
    EXPECT_THAT(cuts(6, 4), ElementsAre(0, 2, 3));
    EXPECT_THAT(cuts(5, 2), ElementsAre(1));
    EXPECT_THAT(cuts(3, 1), ElementsAre());
}

using Matrix = mapl::Matrix<double>;

/// The reference's boundaries, in double.
class Exact final : public Between<double> {
  public:
    explicit Exact(const Plan& plan) : cuts_(cuts(plan.shape.layers, plan.stages)) {
        const Compression compression{Subspace::mapl, 4, 0.1};
        const auto from = [](const Floats& floats, mapl::Index rows) {
            Matrix made(rows, static_cast<mapl::Index>(floats.size()) / rows);
            for (std::size_t i = 0; i < floats.size(); ++i)
                made.data()[i] = static_cast<double>(floats[i]);
            return made;
        };
        for (std::size_t i = 0; i < cuts_.size(); ++i) {
            const mapl::Settings settings = boundary_settings(plan.shape, compression, i, seed);
            const auto table = [&](std::uint64_t side) {
                return from(values(400 + 2 * i + side,
                                   plan.shape.symbols * static_cast<std::size_t>(settings.rank)),
                            settings.vocabulary);
            };
            boundaries.push_back(
                {from(mapl::first_subspace(settings.width, settings.rank, settings.seed), settings.width),
                 {table(0), from(anchor_rows(settings, Side::sender), settings.rank)},
                 {table(1), from(anchor_rows(settings, Side::receiver), settings.rank)}});
            summed.push_back(boundaries.back().no_gradients());
        }
        passed_.resize(cuts_.size());
    }

    void forward(std::size_t layer, double* values) override {
        at(layer, values, [&](std::size_t i, const Matrix& X) {
            passed_[i] = boundaries[i].forward(X, ids);
            return passed_[i].Xhat;
        });
    }
    void backward(std::size_t layer, double* values) override {
        at(layer, values, [&](std::size_t i, const Matrix& G) {
            return boundaries[i].backward(G, passed_[i], summed[i]).dX;
        });
    }

    mapl::Ids ids;
    std::vector<mapl::Boundary<double>> boundaries;
    std::vector<mapl::Gradients<double>> summed;

  private:
    template <class Use>
    void at(std::size_t layer, double* values, const Use& use) {
        for (std::size_t i = 0; i < cuts_.size(); ++i)
            if (cuts_[i] == layer) {
                Eigen::Map<Matrix> place(values, static_cast<mapl::Index>(ids.size()),
                                         boundaries[i].A.rows());
                const Matrix made = use(i, Matrix(place));
                place = made;
            }
    }

    std::vector<std::size_t> cuts_;
    std::vector<mapl::Forward<double>> passed_;
};

/// A model of three blocks in three stages, and a batch of three windows.
struct Whole {
    Whole() {
        plan.shape = {7, 5, 8, 3, 2};
        plan.stages = 3;
        for (const float start : initial_parameters(plan.shape, 5))
            parameters.push_back(static_cast<double>(start + 0.15F * value(1, parameters.size())));
        text = symbols(16, 7);
    }
    [[nodiscard]] Batch batch() const {
        const std::span<const std::uint8_t> all(text);
        return {all.first(15), all.subspan(1)};
    }

    Plan plan;
    std::vector<double> parameters;
    std::vector<std::uint8_t> text;
};

// Gradients of everything, through all stages, are the loss's slopes.
TEST(Pipeline, HasTheLossesSlopesThroughCompressedBoundaries) {
    Whole whole;
    Exact between(whole.plan);
    const Batch batch = whole.batch();
    between.ids.assign(batch.inputs.begin(), batch.inputs.end());
    Model<double> model(whole.plan.shape, 3);
    std::vector<double> gradient(whole.parameters.size());
    model.loss_and_gradient(whole.parameters, batch, gradient, &between);
    const auto slope = [&](double& place) {
        const double kept = place;
        const auto of_width = [&](double width) {
            place = kept + width;
            const double above = model.loss(whole.parameters, batch, &between);
            place = kept - width;
            const double below = model.loss(whole.parameters, batch, &between);
            place = kept;
            return (above - below) / (2 * width);
        };
        return (4 * of_width(1e-5) - of_width(2e-5)) / 3;
    };
    const auto expect_slopes = [&](const std::string& name, double* places, const double* found,
                                   std::size_t size) {
        double norm = 0;
        double off = 0;
        for (std::size_t i = 0; i < size; ++i) {
            norm = std::hypot(norm, found[i]);
            off = std::hypot(off, slope(places[i]) - found[i]);
        }
        EXPECT_GT(norm, 1e-3) << name;
        EXPECT_LT(off, 1e-6 * norm) << name;
    };
    const problem::Layout layout = layout_of(whole.plan.shape);
    for (std::size_t tensor = 0; tensor < layout.tensors().size(); ++tensor) {
        const auto begin = static_cast<std::size_t>(layout.begin(tensor));
        expect_slopes(layout.tensors()[tensor].name, &whole.parameters[begin], &gradient[begin],
                      static_cast<std::size_t>(layout.end(tensor)) - begin);
    }
    for (std::size_t i = 0; i < between.boundaries.size(); ++i) {
        auto& [A, p, q, trains, payload] = between.boundaries[i];
        const mapl::Gradients<double> summed = between.summed[i];
        const Matrix of_a = summed.of_basis();
        const std::string name = "boundary " + std::to_string(i);
        const auto size = [](const Matrix& matrix) { return static_cast<std::size_t>(matrix.size()); };
        expect_slopes(name + ", A", A.data(), of_a.data(), size(A));
        expect_slopes(name + ", E of the sender", p.E.data(), summed.dEp.data(), size(p.E));
        expect_slopes(name + ", E of the receiver", q.E.data(), summed.dEq.data(), size(q.E));
    }
}

// And what trains, in float, has those gradients but for rounding.
TEST(Pipeline, InFloatHasTheGradientsOfTheReferenceInDouble) {
    Whole whole;
    Exact between(whole.plan);
    const Batch batch = whole.batch();
    between.ids.assign(batch.inputs.begin(), batch.inputs.end());
    Model<double> exact(whole.plan.shape, 3);
    const std::vector<float> parameters(whole.parameters.begin(), whole.parameters.end());
    const std::vector<double> same(parameters.begin(), parameters.end());
    std::vector<double> expected(parameters.size());
    const double right = exact.loss_and_gradient(same, batch, expected, &between);
    Floats anchors;
    for (std::size_t i = 0; i < between.boundaries.size(); ++i) {
        for (const Matrix* table : {&between.boundaries[i].p.E, &between.boundaries[i].q.E})
            anchors.insert(anchors.end(), table->data(), table->data() + table->size());
        for (const Matrix* table : {&between.summed[i].dEp, &between.summed[i].dEq})
            expected.insert(expected.end(), table->data(), table->data() + table->size());
    }
    peers::run_linked(1, [&](const peers::Links& links) {
        Pipeline pipeline(whole.plan, Compression{Subspace::mapl, 4, 0.1}, seed, links);
        Model<float> model(whole.plan.shape, 3);
        Floats gradient(expected.size());
        const std::span<float> all(gradient);
        pipeline.begin(batch.inputs, anchors, all.subspan(parameters.size()));
        const double loss =
            model.loss_and_gradient(parameters, batch, all.first(parameters.size()), &pipeline);
        EXPECT_NEAR(loss, right, 1e-6);
        double norm = 0;
        double off = 0;
        for (std::size_t i = 0; i < expected.size(); ++i) {
            norm = std::hypot(norm, expected[i]);
            off = std::hypot(off, static_cast<double>(gradient[i]) - expected[i]);
        }
        EXPECT_LT(off, 4e-6 * norm);
    });
}

std::string refusal(const std::string& optimizer, const Plan& plan) {
    try {
        static_cast<void>(optimizer_of(optimizer, plan));
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

TEST(Compression, SaysWhatIsWrongWithIt) {
    EXPECT_EQ(refusal("adams+mapl:4", small()), "");
    EXPECT_EQ(refusal("scape:0.1+free:8:0.01", small()), "");
    EXPECT_THAT(refusal("adams+mapple:4", small()),
                HasSubstr("behind + is no kind of boundary; it must be"));
    EXPECT_THAT(refusal("adams+mapl", small()), HasSubstr("is without a number of times"));
    EXPECT_THAT(refusal("adams+mapl:0", small()), HasSubstr("is without a whole number of times"));
    EXPECT_THAT(refusal("adams+mapl:2.5", small()), HasSubstr("is without a whole number of times"));
    EXPECT_THAT(refusal("adams+mapl:4:x", small()), HasSubstr("rate of A that is no number above 0"));
    EXPECT_THAT(refusal("adams+fixed:4:1", small()), HasSubstr("is fixed, which has no rate"));
    EXPECT_THAT(refusal("adams+mapl:3", small()),
                HasSubstr("a width of 8 3 times less; give a number that divides it"));
    EXPECT_THAT(refusal("diloco:4+mapl:4", small()), HasSubstr("each rank has a model of its own"));
    EXPECT_THAT(refusal("space+mapl:4", small()), HasSubstr("there is no optimizer 'space'"));
    Plan plan = small();
    plan.learning_rate = 1;
    EXPECT_THAT(refusal("adams+mapl:4:1", plan), HasSubstr("0.52"));
    plan.stages = 1;
    EXPECT_THAT(refusal("adams+mapl:4", plan), HasSubstr("between stages, and there is one"));
}

} // namespace
} // namespace scape::training
