// Reads and checks what a MAPL trace holds before its first step.
#include "head.hpp"

#include <cmath>
#include <string>

#include <truestep/problem/error.hpp>
#include <truestep/problem/mapl/quantization.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/verify/verdict_builder.hpp>

namespace truestep::verify::mapl {

namespace {

std::string codewords_text(const Settings& settings) {
    const Quantization& of = settings.quantization;
    if (!quantizes(settings))
        return "";
    return ", codewords " + std::to_string(of.codewords) + " (groups " + std::to_string(of.groups) +
           ", rounds " + std::to_string(of.rounds) + ", subsets " + std::to_string(of.subsets) + ")";
}

} // namespace

std::string describe(const Config& config) {
    using verify::count_of;
    return "mapl, " + count_of(config.steps, "step") + " of " + std::to_string(config.micro) +
           (config.micro == 1 ? " micro-batch of " : " micro-batches of ") +
           count_of(config.tokens, "token") + ", width " + std::to_string(config.settings.width) +
           ", rank " + std::to_string(config.settings.rank) + ", anchors " +
           std::string(name(config.settings.anchors)) + ", order " +
           std::string(name(config.settings.order)) + ", payload " +
           std::string(name(config.settings.payload)) + codewords_text(config.settings);
}

Head read_head(const trace::Reader& file) {
    const std::string path = file.path().string();
    Head head{parse_config(file.schema().config, path + ": config"),
              file.series_f64("rate"),
              {},
              file.series_f32("initial/A"),
              {},
              {},
              {},
              {}};
    const Settings& settings = head.config.settings;
    try {
        for (const double rate : head.rates)
            check_rate(rate);
        for (const double id : file.series_f64("ids")) {
            if (!(id >= 0.0 && id < static_cast<double>(settings.vocabulary)) || id != std::floor(id))
                throw Error("ids, entry " + std::to_string(head.ids.size()) + ", is " + shortest(id) +
                            "; the vocabulary is " + std::to_string(settings.vocabulary));
            head.ids.push_back(static_cast<Index>(id));
        }
        check_on_manifold(settings, head.a, 1); // it may belong to a later step
        head.m = file.holds("initial/m") ? file.series_f32("initial/m")
                                         : std::vector<float>(head.a.size(), 0.0F);
        if (settings.anchors != Anchors::none)
            head.rows[0] = file.series_f32("P_sender");
        head.rows[1] = settings.anchors == Anchors::two ? file.series_f32("P_receiver") : head.rows[0];
        for (const std::vector<float>& rows : head.rows)
            if (!rows.empty())
                check_rows(settings, rows);
        if (quantizes(settings)) {
            head.codebooks = file.series_f32("initial/C");
            head.learned = file.holds("initial/L") ? file.series_f32("initial/L") : head.codebooks;
            check_codebooks(settings, head.codebooks, "initial/C");
            check_codebooks(settings, head.learned, "initial/L");
        }
    } catch (const Error& error) {
        throw Error(path + ": " + error.what());
    }
    return head;
}

} // namespace truestep::verify::mapl
