// Prints figures of a small text as JSON, for the witness, and a page, for a browser.
#include <iostream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <truestep/problem/error.hpp>
#include <truestep/training/floors.hpp>
#include <truestep/training/synthetic.hpp>

#include "sample_results.hpp"

namespace {

nlohmann::ordered_json figures(const truestep::training::SyntheticSettings& settings) {
    const truestep::training::Text text = truestep::training::synthetic_text(settings);
    nlohmann::ordered_json floors;
    for (const truestep::training::Floor& floor : truestep::training::floors(text))
        floors.push_back(floor.loss);
    return {{"seed", settings.seed},       {"symbols", settings.symbols},
            {"kinds", settings.kinds},     {"successors", settings.successors},
            {"begins", settings.begins},   {"ends", settings.ends},
            {"nearest", settings.nearest}, {"farthest", settings.farthest},
            {"learned", text.learned},     {"measured", text.measured},
            {"entropy", *text.entropy},    {"floors", floors}};
}

void tell_floors(const truestep::training::Text& text) {
    std::cout << text.name << ": " << text.symbols << " symbols, " << text.learned.size() << " learned, "
              << text.measured.size() << " measured\n";
    for (const truestep::training::Floor& floor : truestep::training::floors(text))
        std::cout << name(floor) << " " << floor.loss << '\n';
    if (text.entropy)
        std::cout << "entropy " << *text.entropy << '\n';
}

int run(const std::vector<std::string>& words) {
    if (words == std::vector<std::string>{"page"}) {
        std::cout << truestep::training::training_page(truestep::training::support::sample_results());
        return 0;
    }
    if (words == std::vector<std::string>{"figures"}) {
        const truestep::training::SyntheticSettings usual{.seed = 11, .learned = 12000, .measured = 2000};
        const truestep::training::SyntheticSettings small{.seed = 12,
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
    if (words.empty() || words.front() != "floors" || words.size() > 2) {
        std::cerr << "probe: say figures, page, floors (of the made-up text) or floors FILE (nine tenths "
                     "learned)\n";
        return 2;
    }
    tell_floors(words.size() == 1 ? truestep::training::synthetic_text({})
                                  : truestep::training::text_of_file(words[1], 0.9));
    return 0;
}

} // namespace

int main(int count, char** words) {
    try {
        return run({words + 1, words + count});
    } catch (const truestep::Error& error) {
        std::cerr << "probe: " << error.what() << '\n';
        return 2;
    }
}
