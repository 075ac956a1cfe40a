// Figures of a small text as JSON, for the witness, and a page, for a browser.
#include <iostream>
#include <string>

#include <nlohmann/json.hpp>

#include <scape/training/floors.hpp>
#include <scape/training/synthetic.hpp>

#include "sample_results.hpp"

namespace {

nlohmann::ordered_json figures(const scape::training::SyntheticSettings& settings) {
    const scape::training::Text text = scape::training::synthetic_text(settings);
    nlohmann::ordered_json floors;
    for (const scape::training::Floor& floor : scape::training::floors(text))
        floors.push_back(floor.loss);
    return {{"seed", settings.seed},       {"symbols", settings.symbols},
            {"kinds", settings.kinds},     {"successors", settings.successors},
            {"begins", settings.begins},   {"ends", settings.ends},
            {"nearest", settings.nearest}, {"farthest", settings.farthest},
            {"learned", text.learned},     {"measured", text.measured},
            {"entropy", *text.entropy},    {"floors", floors}};
}

} // namespace

int main(int count, char** words) {
    const std::string what = count == 2 ? words[1] : "";
    if (what == "page") {
        std::cout << scape::training::training_page(scape::training::support::sample_results());
        return 0;
    }
    if (what != "figures") {
        std::cerr << "probe: say figures or page\n";
        return 2;
    }
    scape::training::SyntheticSettings usual{.seed = 11, .learned = 12000, .measured = 2000};
    scape::training::SyntheticSettings small{.seed = 12,
                                             .symbols = 5,
                                             .kinds = 5,
                                             .successors = 3,
                                             .begins = 9000,
                                             .ends = 7000,
                                             .nearest = 3,
                                             .farthest = 9,
                                             .learned = 6000,
                                             .measured = 1500};
    std::cout << nlohmann::ordered_json{figures(usual), figures(small)}.dump() << '\n';
    return 0;
}
