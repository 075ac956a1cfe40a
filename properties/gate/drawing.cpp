// Checks the drawing of a shrunk case and writes it as JSON, with lanes of values per rank.
#include <truestep/gate/drawing.hpp>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>

namespace truestep::gate {

namespace {

using nlohmann::ordered_json;

const char* name(Lane::Kind kind) {
    switch (kind) {
    case Lane::Kind::bits:
        return "bits";
    case Lane::Kind::counts:
        return "counts";
    case Lane::Kind::floats:
        break;
    }
    return "floats";
}

void check(const Drawing& drawing, const Lane& lane) {
    const std::size_t rows = lane.shared ? 1 : static_cast<std::size_t>(drawing.ranks);
    const auto fits = [&](const std::vector<Lane::Values>& values, bool may_lack) {
        if (values.size() != rows && !(may_lack && values.empty()))
            return false;
        for (const Lane::Values& row : values)
            if (row.size() != static_cast<std::size_t>(drawing.size) && !(may_lack && row.empty()))
                return false;
        return true;
    };
    if (!fits(lane.values, false) || !fits(lane.expected, true))
        throw Error("the drawing's lane '" + lane.name + "' does not have " + std::to_string(rows) +
                    (rows == 1 ? " row" : " rows") + " of " + std::to_string(drawing.size) +
                    " values; mend the finding that draws it");
}

ordered_json lane_json(const Drawing& drawing, const Lane& lane) {
    check(drawing, lane);
    ordered_json expected = ordered_json::array();
    for (std::size_t row = 0; row < lane.values.size(); ++row)
        expected.push_back(row < lane.expected.size() && !lane.expected[row].empty()
                               ? ordered_json(lane.expected[row])
                               : ordered_json());
    return {{"name", lane.name},     {"title", lane.title},   {"kind", name(lane.kind)},
            {"shared", lane.shared}, {"values", lane.values}, {"expected", expected}};
}

} // namespace

Lane::Values texts(std::span<const float> values) {
    Lane::Values result;
    result.reserve(values.size());
    for (const float value : values)
        result.push_back(shortest(value));
    return result;
}

ordered_json drawing_json(const Drawing& drawing) {
    if (drawing.size > Drawing::most_coordinates || drawing.ranks > Drawing::most_ranks)
        return nullptr;
    ordered_json json{{"after", drawing.after},
                      {"size", drawing.size},
                      {"ranks", drawing.ranks},
                      {"tensors", ordered_json::array()},
                      {"segments", ordered_json::array()},
                      {"lanes", ordered_json::array()}};
    for (const Drawing::Tensor& tensor : drawing.tensors)
        json["tensors"].push_back(
            {{"name", tensor.name}, {"begin", tensor.begin}, {"end", tensor.end}, {"note", tensor.note}});
    for (const Drawing::Segment& segment : drawing.segments)
        json["segments"].push_back(
            {{"begin", segment.begin}, {"end", segment.end}, {"owner", segment.owner}});
    for (const Lane& lane : drawing.lanes)
        json["lanes"].push_back(lane_json(drawing, lane));
    return json;
}

} // namespace truestep::gate
