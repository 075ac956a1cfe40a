#include "optimizer.hpp"

#include <algorithm>
#include <vector>

#include <scape/gate/meant.hpp>
#include <scape/problem/error.hpp>

namespace scape::training {

namespace {

constexpr std::string_view alias = "adams"; // as the chapter has it; among peers it is the dense one

std::string peer_of(const std::string& text) {
    const std::size_t end = std::min(text.find(':'), text.size());
    const std::string name = text.substr(0, end);
    if (name == alias)
        return "dense" + text.substr(end);
    std::vector<std::string> known{std::string(alias)};
    std::string list(alias);
    for (const peers::Kind& kind : peers::kinds()) {
        if (kind.name == name)
            return text;
        known.emplace_back(kind.name);
        list += ", " + known.back();
    }
    throw Error("there is no optimizer '" + name + "'" + gate::meant(name, known) + " (there are " + list +
                ")");
}

} // namespace

peers::Choice optimizer_of(const std::string& text, const Plan& plan) {
    const problem::Layout layout = layout_of(plan.shape);
    peers::Choice choice = peers::parse(peer_of(text), layout.size());
    choice.setting.hyper = plan.hyper;
    choice.setting.density_warm_up = static_cast<peers::Index>(plan.density_warm_up);
    choice.setting.tensors = layout.tensors();
    return choice;
}

} // namespace scape::training
