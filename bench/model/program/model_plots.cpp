// Draws the plots of docs/cost-model.md.
#include "model_inputs.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <system_error>
#include <tuple>

#include <truestep/problem/error.hpp>
#include <truestep/report/folder.hpp>

#include "model/plot.hpp"

namespace truestep::model {

namespace {

void write(const std::filesystem::path& file, const model::Plot& plot) {
    report::write_text(file, plot.svg(), "plot");
    std::printf("%s\n", file.c_str());
}

} // namespace

void write_plots(const std::filesystem::path& folder, const std::vector<std::string>& measured) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error)
        throw Error(folder.string() + ": the folder of the plots cannot be made (" + error.message() + ")");
    const Machine machine = gh200();
    std::vector<double> ranks;
    for (double P = 4; P <= 16384; P *= 2)
        ranks.push_back(P);
    model::Plot by_ranks{
        "A step without compute: d = 1.8e9, density 0.01, 50 GB/s a rank", "ranks", "ms", {}};
    for (const char* scheme : {"dense", "dense-bf16-all", "topk-indices", "ok-topk", "scape-bitmap",
                               "scape", "scape-hierarchy"}) {
        model::Curve curve{scheme, ranks, {}};
        for (const double P : ranks)
            curve.y.push_back(model::seconds_of(scheme, {1.8e9, P, 0.01}, machine).step * 1e3);
        by_ranks.curves.push_back(curve);
    }
    write(folder / "step-by-ranks.svg", by_ranks);

    model::Plot parts{
        "What SCAPE's step is made of: d = 1.8e9, density 0.01, 50 GB/s a rank",
        "ranks",
        "ms",
        {{"values", ranks, {}}, {"messages", ranks, {}}, {"mask", ranks, {}}, {"local", ranks, {}}}};
    for (const double P : ranks) {
        const model::Seconds s = model::seconds_of("scape", {1.8e9, P, 0.01}, machine);
        parts.curves[0].y.push_back(s.values * 1e3);
        parts.curves[1].y.push_back(s.messages * 1e3);
        parts.curves[2].y.push_back(s.mask * 1e3);
        parts.curves[3].y.push_back(s.local * 1e3);
    }
    write(folder / "scape-parts.svg", parts);

    model::Plot by_link{
        "Speed-up over dense fp32, 64 ranks, d = 1.8e9, compute 100 ms", "link, MB/s", "times", {}};
    std::vector<double> links;
    for (double megabytes = 10; megabytes <= 100'000; megabytes *= std::sqrt(10.0))
        links.push_back(megabytes);
    for (const auto& [name, scheme, density] :
         {std::tuple{"scape 0.01", "scape", 0.01}, std::tuple{"scape 0.1", "scape", 0.1},
          std::tuple{"ok-topk 0.01", "ok-topk", 0.01}, std::tuple{"topk 0.01", "topk-indices", 0.01},
          std::tuple{"dense bf16", "dense-bf16-all", 0.01}}) {
        model::Curve curve{name, links, {}};
        for (const double megabytes : links) {
            Machine slower = machine;
            slower.bandwidth = megabytes * 1e6;
            curve.y.push_back(model::speed_up(scheme, {1.8e9, 64, density, 0.1}, slower));
        }
        by_link.curves.push_back(curve);
    }
    write(folder / "speed-up-by-link.svg", by_link);

    if (measured.empty())
        return;
    const auto rows = read_measured(measured);
    const Machine fitted = model::fit(rows, no_machine());
    std::vector<std::string> names;
    model::Plot both{"Measured on the shaped network, and predicted", "measured ms", "predicted ms", {}};
    for (const Measured& row : rows) {
        const std::string name =
            row.scheme + (row.scheme.starts_with("scape") && row.setting.density > 0.05 ? " 0.1" : "");
        auto found = std::find(names.begin(), names.end(), name);
        if (found == names.end()) {
            both.curves.push_back({name, {}, {}, true});
            found = names.insert(names.end(), name);
        }
        model::Curve& curve = both.curves[static_cast<std::size_t>(found - names.begin())];
        curve.x.push_back(row.seconds * 1e3);
        curve.y.push_back(model::predicted(row, fitted) * 1e3);
    }
    write(folder / "measured-predicted.svg", both);
}

} // namespace truestep::model
