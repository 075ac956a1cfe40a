// MAPL, in the gate's terms.
#include <algorithm>
#include <utility>

#include <truestep/gate/system.hpp>
#include <truestep/mapl/traces.hpp>
#include <truestep/problem/error.hpp>

#include "candidate.hpp"
#include "devices.hpp"
#include "family.hpp"
#include "planted/diagnosis.hpp"
#include "planted/planted.hpp"
#include "program.hpp"

namespace truestep::systems {

namespace {

using gate::Pins;
using mapl::Case;
using mapl::parse_case;

/// By way of a case, which knows what may be.
void check_mapl(const std::string& key, const std::string& value) {
    const Case run = parse_case("width=4096,rank=1," + key + "=" + value);
    if (run.micro == 0) // drawn now and then; but what properties ask takes one
        throw Error("case: micro is '0'; it must be a number from 1 on");
}

/// The options that hold cases to values, and the keys of a case that they are.
struct MaplOption {
    const char* option;
    const char* key;
    const char* help;
};
constexpr MaplOption mapl_options[]{
    {"workers", "workers", "numbers of stages, from 2 on; 2,3,4 without it"},
    {"rank", "rank", "ranks of the subspace; 1,2,4 without it"},
    {"width", "width", "numbers of features, at least the rank; 4,7 without it"},
    {"tokens", "tokens", "tokens of a micro-batch; 3,33 without it"},
    {"anchors", "anchors", "none,fixed,shared,two; all without it"},
    {"order", "order", "of SPEL: project_first,momentum_first; both without it"},
    {"payload", "payload", "of Z and dZ: fp32,bf16; both without it"},
    {"codewords", "codewords", "of a codebook for Z, 0 is none: 0,6; any without it"},
    {"rounds", "rounds", "of vector quantization; any without it"},
    {"groups", "groups", "of vector quantization, where they divide the rank, else 1; any without it"},
    {"subsets", "subsets",
     "of codewords that travel by turns, where they divide them, else 1; any without it"},
    {"vocabulary", "vocabulary", "numbers of ids; any without it"},
    {"micro", "micro", "micro-batches of a step; any without it"},
    {"schedule", "schedule", "of the pipeline: gpipe,1f1b"},
    {"replicas", "replicas", "copies of the pipeline side by side: 1,2; any without it"},
    {"trainer", "trainer", "of stages, over their replicas: none,adams,scape; any without it"},
};

/// Which of the values a case gets: any, but always the same for the same case; shrinking leads to the
/// first.
const std::string& one_of(const std::vector<std::string>& values, const gate::Line& line) {
    std::size_t sum = 0;
    if (values.size() > 1)
        for (const char letter : line)
            sum = sum * 31 + static_cast<unsigned char>(letter);
    return values[sum % values.size()];
}

gate::Line pinned_mapl(const gate::Line& line, const Pins& pins) {
    std::string changed = text(parse_case(line));
    std::string rank = std::to_string(parse_case(line).rank);
    std::string width = std::to_string(parse_case(line).width);
    for (const MaplOption& option : mapl_options)
        if (const auto found = pins.find(option.option); found != pins.end() && !found->second.empty()) {
            const std::string& value = one_of(found->second, line);
            changed += std::string(",") + option.key + "=" + value;
            if (option.key == std::string("rank"))
                rank = value;
            if (option.key == std::string("width"))
                width = value;
        }
    // What was not asked for gives way.
    if (std::stoll(rank) > std::stoll(width))
        changed += pins.contains("width") ? ",rank=" + width : ",width=" + rank;
    return text(parse_case(changed));
}

/// The main settings, and what rows have of them where nobody asks.
struct RowSetting {
    const char* name;
    std::vector<std::string> usual;
};
const std::vector<RowSetting>& row_settings() {
    static const std::vector<RowSetting> all{{"workers", {"2", "3", "4"}},
                                             {"rank", {"1", "2", "4"}},
                                             {"width", {"4", "7"}},
                                             {"tokens", {"3", "33"}},
                                             {"anchors", {"none", "fixed", "shared", "two"}},
                                             {"order", {"project_first", "momentum_first"}},
                                             {"payload", {"fp32", "bf16"}},
                                             {"codewords", {"0", "6"}},
                                             {"replicas", {"1", "2"}},
                                             {"trainer", {"none", "adams", "scape"}}};
    return all;
}

/// Whether these values make a row together.
bool meet(const Pins& row, const Pins& asked) {
    const auto is = [&](const char* setting, const char* value) {
        return row.at(setting).front() == value;
    };
    // What travels knows nothing of SPEL: bf16 and codewords with one of the orders, and not both at once,
    // unless it is asked for.
    const bool travels = asked.contains("payload") || asked.contains("codewords");
    const bool as_it_is = is("payload", "fp32") && is("codewords", "0");
    const bool both = !is("payload", "fp32") && !is("codewords", "0");
    if (!travels && (both || !(as_it_is || is("order", "project_first") || asked.contains("order"))))
        return false;
    // More tokens want other sums, and no more stages, orders or ranks: with one of those.
    if (!is("tokens", "3") && !asked.contains("tokens"))
        for (const auto& [setting, value] :
             {std::pair("workers", "2"), std::pair("rank", "2"), std::pair("order", "project_first"),
              std::pair("replicas", "1")})
            if (!is(setting, value) && !asked.contains(setting))
                return false;
    // Replicas know of nothing but A and the anchors: with one of all else. Several have a trainer.
    if (is("replicas", "1"))
        return is("trainer", "none") || asked.contains("trainer");
    if (is("trainer", "none") || (is("workers", "4") && !asked.contains("workers")))
        return false;
    for (const auto& [setting, value] :
         {std::pair("rank", "2"), std::pair("width", "7"), std::pair("tokens", "3"),
          std::pair("order", "project_first"), std::pair("payload", "fp32"), std::pair("codewords", "0")})
        if (!is(setting, value) && !asked.contains(setting))
            return false;
    return true;
}

std::vector<Pins> rows_of_mapl(const gate::Implementation& implementation, const Pins& pins) {
    std::vector<Pins> all(1);
    for (const RowSetting& setting : row_settings()) {
        const auto found = pins.find(setting.name);
        std::vector<Pins> longer;
        for (const Pins& row : all)
            for (const std::string& value : found == pins.end() ? setting.usual : found->second) {
                longer.push_back(row);
                longer.back()[setting.name] = {value};
            }
        all = std::move(longer);
    }
    const auto number = [](const Pins& row, const char* setting) {
        return std::stoi(row.at(setting).front());
    };
    const gate::LeftOut left_out = implementation.left_out();
    const auto has = [&](const Pins& row, const char* setting, const char* usual) {
        return row.at(setting).front() == usual || !left_out.contains(setting);
    };
    std::erase_if(all, [&](const Pins& row) {
        if (!has(row, "trainer", "none") || !has(row, "payload", "fp32") || !has(row, "codewords", "0"))
            return true;
        if (left_out.contains("trainer") && row.at("replicas").front() != "1")
            return true;
        return !implementation.takes(number(row, "workers") * number(row, "replicas")) ||
               number(row, "rank") > number(row, "width") || !meet(row, pins);
    });
    return all;
}

/// Tried in each row beside the drawn cases.
std::vector<gate::Line> standing_of_mapl(const gate::Implementation& /*of*/, const Pins& pins) {
    if (!pins.empty())
        return {};
    return {
        "rank=16,width=48,workers=4,tokens=40,vocabulary=257,micro=6,steps=3,anchors=two,"
        "schedule=1f1b,data=normal",
        "rank=40,width=128,workers=2,tokens=100,vocabulary=50,micro=2,steps=2,anchors=shared,data=normal",
        "rank=24,width=40,workers=3,tokens=70,vocabulary=50,micro=5,steps=2,codewords=96,groups=4,rounds=2,"
        "subsets=4,data=normal"};
}

} // namespace

gate::System mapl_system();

gate::System mapl_system() {
    gate::System system;
    system.name = "mapl";
    system.says = "MAPL: stages of a pipeline send activations and gradients in a learned subspace.";
    system.parsed = [](const gate::Line& line) { return text(parse_case(line)); };
    system.fewest_workers = 2; // the two ends of a boundary
    system.most_workers = [](const gate::Line& line) { return parse_case(line).ranks(); };
    for (const MaplOption& option : mapl_options)
        system.pins.push_back(
            {option.option, option.help, true,
             [key = std::string(option.key)](const std::string& value) { check_mapl(key, value); }});
    system.pinned = pinned_mapl;
    system.decided = [](const std::string& kind, const Pins& pins, const gate::LeftOut& left_out) {
        const std::map<std::string, std::string> settings{
            {"several replicas", "trainer"},   {"trained by SCAPE", "trainer"},
            {"payload of 16 bits", "payload"}, {"codewords", "codewords"},
            {"streamed", "codewords"},         {"several rounds", "codewords"}};
        if (const auto found = settings.find(kind);
            found != settings.end() && left_out.contains(found->second))
            return true;
        if (kind == "several boundaries")
            return pins.contains("workers");
        if (kind == "several replicas")
            return pins.contains("replicas") || pins.contains("workers");
        if (kind == "trained by SCAPE")
            return pins.contains("trainer");
        if (kind == "compressed")
            return pins.contains("rank") || pins.contains("width");
        if (kind == "payload of 16 bits")
            return pins.contains("payload");
        if (kind == "several micro-batches")
            return pins.contains("micro");
        if (kind == "codewords" || kind == "streamed")
            return pins.contains("codewords") || (kind == "streamed" && pins.contains("subsets"));
        if (kind == "several rounds")
            return pins.contains("codewords") || pins.contains("rounds");
        return kind == "anchors" && pins.contains("anchors");
    };
    for (const RowSetting& setting : row_settings())
        system.settings.emplace_back(setting.name);
    system.rows = rows_of_mapl;
    system.properties = mapl::properties();
    for (gate::Property& property : system.properties)
        if (property.name == "reference")
            property.also = standing_of_mapl;
    system.implementations = [](const std::shared_ptr<const gate::Group>& group) {
        gate::Implementations all{std::make_shared<mapl::OnRanks>("host", mapl::host_ends(), group)};
        for (const auto& implementation : mapl::on_devices(group))
            all.push_back(implementation);
        all.push_back(mapl::planted(0, group));
        return all;
    };
    system.program = mapl::program_candidate;
    system.mistakes = mapl::mistakes();
    system.planted = mapl::planted;
    system.clean = {"host"};
    system.traces = mapl::traces();
    system.what_fits = mapl::what_fits;
    return system;
}

} // namespace truestep::systems
