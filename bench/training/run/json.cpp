// Converts training plans and the points of loss curves to JSON and back.
#include "json.hpp"

#include <cmath>
#include <limits>

namespace truestep::training {

namespace {

using Json = nlohmann::ordered_json;

} // namespace

Json number(double value) {
    return std::isfinite(value) ? Json(value) : Json();
}

Json json_of(const Plan& plan, std::size_t symbols) {
    Shape shape = plan.shape;
    shape.symbols = symbols;
    const Json model{{"context", shape.context},
                     {"width", shape.width},
                     {"layers", shape.layers},
                     {"heads", shape.heads},
                     {"parameters", layout_of(shape).size()}};
    Json json{{"model", model},
              {"ranks", plan.ranks},
              {"steps", plan.steps},
              {"batch", plan.batch},
              {"learning_rate", plan.learning_rate},
              {"warm_up", plan.warm_up},
              {"measure_every", plan.measure_every},
              {"measured_windows", plan.measured_windows},
              {"density_warm_up", plan.density_warm_up},
              {"bias_correction", problem::name(plan.hyper.bias_correction)},
              {"beta1", plan.hyper.beta1},
              {"beta2", plan.hyper.beta2},
              {"epsilon", plan.hyper.epsilon},
              {"clip_norm", plan.hyper.clip_norm},
              {"weight_decay", plan.hyper.weight_decay}};
    if (plan.stages > 1) // files from before there were any say nothing of them
        json["stages"] = plan.stages;
    return json;
}

Json json_of(const std::vector<Curve::Point>& points) {
    Json json = Json::array();
    for (const Curve::Point& point : points)
        json.push_back({{"step", point.step}, {"loss", number(point.loss)}, {"bytes", point.bytes}});
    return json;
}

std::vector<Curve::Point> points_of(const Json& json) {
    std::vector<Curve::Point> points;
    for (const Json& point : json) {
        const Json& loss = point.at("loss");
        points.push_back({point.at("step"),
                          loss.is_null() ? std::numeric_limits<double>::quiet_NaN() : loss.get<double>(),
                          point.at("bytes")});
    }
    return points;
}

} // namespace truestep::training
