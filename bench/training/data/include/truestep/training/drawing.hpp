#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <truestep/training/curve.hpp>
#include <truestep/training/floors.hpp>
#include <truestep/training/judge.hpp>

// Drawings are whole SVG files, with their style and without scripts. A page contains them
// unchanged.

namespace truestep::training {

/// Lines across the curves: floors of counting models, and the entropy, which no model can beat.
struct Levels {
    std::vector<Floor> floors;
    std::optional<double> entropy;
};

/// A thin line for each seed, a thick one for the median, and dashed floors with their names.
/// Values above both the unigram and every end are cut off.
[[nodiscard]] std::string loss_over_steps(const std::vector<Curve>& curves, const Levels& levels);
/// The same over the bytes that all ranks sent, on a log axis. A run without bytes has no place
/// there; the key says so.
[[nodiscard]] std::string loss_over_bytes(const std::vector<Curve>& curves, const Levels& levels);

struct MapCell {
    double density = 1;
    std::size_t steps = 0;
    Verdict verdict;
};
/// A map of density by steps: a letter and a colour for the verdict, and the difference.
[[nodiscard]] std::string verdict_map(const std::string& title, const std::vector<MapCell>& cells);

/// A candidate compared with the base line.
struct Comparison {
    std::string base;
    std::string candidate;
    std::string setting; ///< what both had in common: "1500 steps, batch 8"
    Verdict verdict;
};

struct TrainingResults {
    std::string text; ///< what was learned: "synthetic, seed 1: 64 symbols, 262144 learned, 65536 measured"
    Levels levels;
    Sigma sigma;
    std::vector<Comparison> comparisons;
    std::vector<Curve> curves;
    struct Map {
        std::string title;
        std::vector<MapCell> cells;
    };
    std::vector<Map> maps;
    nlohmann::ordered_json made; ///< "command", "environment", "seconds", as in docs/results.md
};

/// A standalone page without scripts.
[[nodiscard]] std::string training_page(const TrainingResults& results);

} // namespace truestep::training
