// Compares gradients through compressed boundaries with difference quotients, and with the
// reference in double.
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/reference/mapl/boundary.hpp>

#include "peers/links.hpp"
#include "pipeline.hpp"
#include "pipeline_support.hpp"

namespace truestep::training {
namespace {

using distributed::mapl::Floats;
using problem::mapl::Side;
using Matrix = reference::mapl::Matrix<double>;

/// The reference's boundaries, in double.
class Exact final : public StageBoundary<double> {
  public:
    explicit Exact(const Plan& plan) : cuts_(cuts(plan.shape.layers, plan.stages)) {
        const Compression compression{Subspace::mapl, 4, 0.1};
        const auto from = [](const Floats& floats, problem::mapl::Index rows) {
            Matrix made(rows, static_cast<problem::mapl::Index>(floats.size()) / rows);
            for (std::size_t i = 0; i < floats.size(); ++i)
                made.data()[i] = static_cast<double>(floats[i]);
            return made;
        };
        for (std::size_t i = 0; i < cuts_.size(); ++i) {
            const problem::mapl::Settings settings = boundary_settings(plan.shape, compression, i, seed);
            const auto table = [&](std::uint64_t side) {
                return from(values(400 + 2 * i + side,
                                   plan.shape.symbols * static_cast<std::size_t>(settings.rank)),
                            settings.vocabulary);
            };
            boundaries.push_back(
                {from(problem::mapl::first_subspace(settings.width, settings.rank, settings.seed),
                      settings.width),
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

    reference::mapl::Ids ids;
    std::vector<reference::mapl::Boundary<double>> boundaries;
    std::vector<reference::mapl::Gradients<double>> summed;

  private:
    template <class Use>
    void at(std::size_t layer, double* values, const Use& use) {
        for (std::size_t i = 0; i < cuts_.size(); ++i)
            if (cuts_[i] == layer) {
                Eigen::Map<Matrix> place(values, static_cast<problem::mapl::Index>(ids.size()),
                                         boundaries[i].A.rows());
                const Matrix made = use(i, Matrix(place));
                place = made;
            }
    }

    std::vector<std::size_t> cuts_;
    std::vector<reference::mapl::Forward<double>> passed_;
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

// All gradients, through all stages, equal the loss's slopes.
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
        const reference::mapl::Gradients<double> summed = between.summed[i];
        const Matrix of_a = summed.of_basis();
        const std::string name = "boundary " + std::to_string(i);
        const auto size = [](const Matrix& matrix) { return static_cast<std::size_t>(matrix.size()); };
        expect_slopes(name + ", A", A.data(), of_a.data(), size(A));
        expect_slopes(name + ", E of the sender", p.E.data(), summed.dEp.data(), size(p.E));
        expect_slopes(name + ", E of the receiver", q.E.data(), summed.dEq.data(), size(q.E));
    }
}

// The training in float has the same gradients up to rounding.
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

} // namespace
} // namespace truestep::training
