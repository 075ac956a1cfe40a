// The cost model's command line: predictions, the fit to measurements of the shaped network, and
// the paper's settings.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <truestep/gate/exit_status.hpp>
#include <truestep/gate/subcommands.hpp>
#include <truestep/problem/statistics.hpp>

#include "model_inputs.hpp"

namespace truestep::model {

namespace {

using gate::all_passed;

std::string bytes_text(double bytes) {
    char text[32];
    if (bytes >= 1e9)
        std::snprintf(text, sizeof text, "%.2f GB", bytes / 1e9);
    else if (bytes >= 1e6)
        std::snprintf(text, sizeof text, "%.2f MB", bytes / 1e6);
    else
        std::snprintf(text, sizeof text, "%.0f B", bytes);
    return text;
}

void predict(const Setting& setting, const Machine& machine) {
    std::printf(
        "d = %g, P = %g, density %g, H = %g, law %s, link %g B/s, latency %g s, %g s a message, memory %g "
        "B/s, compute %g s\n",
        setting.size, setting.ranks, setting.density, setting.inner_steps,
        std::string(problem::gasloc::name(setting.law)).c_str(), machine.bandwidth, machine.latency,
        machine.overhead, machine.memory, setting.compute);
    std::printf("%-16s %11s %11s %11s %11s %11s %11s %11s %9s\n", "scheme", "sent", "of it mask",
                "values ms", "messages ms", "mask ms", "local ms", "step ms", "x dense");
    for (const model::Scheme& scheme : model::schemes()) {
        const model::Work work = model::work_of(scheme.name, setting);
        const model::Seconds seconds = model::seconds_of(work, setting, machine);
        std::printf("%-16s %11s %11s %11.3f %11.3f %11.3f %11.3f %11.3f %9.2f\n",
                    std::string(scheme.name).c_str(), bytes_text(work.values + work.mask).c_str(),
                    bytes_text(work.mask).c_str(), seconds.values * 1e3, seconds.messages * 1e3,
                    seconds.mask * 1e3, seconds.local * 1e3, seconds.step * 1e3,
                    model::speed_up(scheme.name, setting, machine));
    }
}

/// The name that bench_peers uses, such as "gasloc:100".
std::string title_of(const Measured& row) {
    char number[16] = "";
    if (row.setting.inner_steps > 1)
        std::snprintf(number, sizeof number, ":%g", row.setting.inner_steps);
    return row.scheme + number;
}

void compare(const std::string& title, const std::vector<Measured>& rows, const Machine& machine) {
    std::printf("\n%s\n%-15s %8s %10s %8s %8s %12s %12s %8s\n", title.c_str(), "scheme", "density", "d",
                "Gbit/s", "delay ms", "measured ms", "predicted ms", "off");
    std::vector<double> off;
    for (const Measured& row : rows) {
        const double seconds = model::predicted(row, machine);
        off.push_back(std::abs(seconds / row.seconds - 1));
        std::printf("%-15s %8g %10.0f %8g %8g %12.2f %12.2f %+7.1f%%\n", title_of(row).c_str(),
                    row.setting.density, row.setting.size, row.bandwidth * 8e-9, row.delay * 1e3,
                    row.seconds * 1e3, seconds * 1e3, (seconds / row.seconds - 1) * 100);
    }
    const auto within = std::count_if(off.begin(), off.end(), [](double share) { return share <= 0.15; });
    if (!off.empty())
        std::printf("within 15 %%: %td of %zu; median %.1f %%, worst %.1f %%\n", within, off.size(),
                    median(off) * 100, std::ranges::max(off) * 100);
}

void fit_and_check(const std::vector<std::string>& fitted, const std::vector<std::string>& checked) {
    const auto rows = read_measured(fitted);
    const Machine machine = model::fit(rows, no_machine());
    std::printf(
        "latency %.3g s an exchange, transport %.3g s/B, memory %.3g B/s, irregular %.3g s a line\n",
        machine.latency, machine.transport, machine.memory, machine.irregular);
    compare("fitted to", rows, machine);
    if (!checked.empty())
        compare("checked on", read_measured(checked), machine);
}

void paper() {
    struct Case {
        const char* name;
        double size;
        double ranks;
        double tokens; ///< a step, of all ranks
    };
    constexpr double tokens = 1024.0 * 4096.0;
    constexpr double flops = 400e12; // of a GPU, sustained: 40 % of its bf16 peak
    Machine machine = gh200();
    std::printf(
        "GH200-like: 50 GB/s a rank, 3.6 TB/s, 5 us an exchange, 1 us a message; compute = 6 d tokens / P "
        "at 400 TFLOP/s;\ndense is AdamS with fp32 gradients and parameters. Step ms without compute, and "
        "speed-up with it and without\n");
    std::printf("%-12s %6s %10s %10s | %10s %8s %8s | %10s %8s %8s\n", "model", "P", "compute ms",
                "dense ms", "0.1 ms", "with", "without", "0.01 ms", "with", "without");
    for (const auto& [name, size, ranks, all_tokens] :
         {Case{"Llama-500M", 0.5e9, 32, tokens}, Case{"Llama-1.8B", 1.8e9, 4, tokens},
          Case{"Llama-1.8B", 1.8e9, 8, tokens}, Case{"Llama-1.8B", 1.8e9, 16, tokens},
          Case{"Llama-1.8B", 1.8e9, 32, tokens}, Case{"Llama-1.8B", 1.8e9, 64, tokens}}) {
        Setting setting{size, ranks, 0.1, 6 * size * all_tokens / ranks / flops};
        const auto alone = [&](std::string_view scheme) {
            Setting bare = setting;
            bare.compute = 0;
            return model::seconds_of(scheme, bare, machine).step;
        };
        std::printf("%-12s %6g %10.1f %10.2f", name, ranks, setting.compute * 1e3, alone("dense") * 1e3);
        for (const double density : {0.1, 0.01}) {
            setting.density = density;
            std::printf(" | %10.2f %8.2f %8.2f", alone("scape") * 1e3,
                        model::speed_up("scape", setting, machine), alone("dense") / alone("scape"));
        }
        std::printf("\n");
    }
    std::printf("\nWhat the published ratios say, if the model holds: the share of communication in the "
                "dense step, and the "
                "bandwidth a rank\nthat it takes at the compute above (GB/s)\n");
    for (const auto& [name, size, ranks, ratio] :
         {std::tuple{"Llama-500M, 43.3 % less", 0.5e9, 32.0, 1 / (1 - 0.433)},
          std::tuple{"Llama-1.8B, 3.26x", 1.8e9, 4.0, 3.26},
          std::tuple{"Llama-1.8B, 3.26x", 1.8e9, 64.0, 3.26}}) {
        const Setting setting{size, ranks, 0.01, 6 * size * tokens / ranks / flops};
        std::printf("%-24s P = %2g: at least %.0f %%; %.2f GB/s\n", name, ranks, (1 - 1 / ratio) * 100,
                    model::bandwidth_for(ratio, "scape", "dense", setting, machine) / 1e9);
    }
}

void scale() {
    std::printf("What SCAPE's step is made of, without compute; d = 1.8e9, density 0.01 (ms)\n");
    std::printf("%-24s %7s | %9s %9s %9s %9s | %9s %9s %9s | %s\n", "link", "P", "values", "messages",
                "mask", "local", "bitmap", "two level", "dense", "first");
    struct Link {
        const char* name;
        double bandwidth;
        double latency;
    };
    for (const auto& [name, bandwidth, latency] :
         {Link{"50 GB/s, 5 us", 50e9, 5e-6}, Link{"1.25 GB/s, 50 us", 1.25e9, 50e-6},
          Link{"12.5 MB/s, 50 ms", 12.5e6, 50e-3}})
        for (const double ranks : {4.0, 64.0, 1024.0, 16384.0}) {
            Machine machine = gh200();
            machine.bandwidth = bandwidth;
            machine.latency = latency;
            const Setting setting{1.8e9, ranks, 0.01};
            const model::Seconds s = model::seconds_of("scape", setting, machine);
            const std::pair<double, const char*> parts[] = {
                {s.values, "values"}, {s.messages, "messages"}, {s.mask, "mask"}, {s.local, "local"}};
            std::printf("%-24s %7g | %9.2f %9.2f %9.2f %9.2f | %9.2f %9.2f %9.1f | %s\n", name, ranks,
                        s.values * 1e3, s.messages * 1e3, s.mask * 1e3, s.local * 1e3,
                        model::seconds_of("scape-bitmap", setting, machine).mask * 1e3,
                        model::seconds_of("scape-hierarchy", setting, machine).step * 1e3,
                        model::seconds_of("dense", setting, machine).step * 1e3,
                        std::max_element(std::begin(parts), std::end(parts))->second);
        }
}

struct PredictSettings {
    Setting setting{1 << 24, 4, 0.01, 0};
    Machine machine = gh200();
    std::string law = "pairs";
};

void add_predict(CLI::App& model, int& status) {
    CLI::App* command = model.add_subcommand("predict", "bytes, seconds and speed-up of each scheme");
    auto settings = std::make_shared<PredictSettings>();
    Setting& setting = settings->setting;
    Machine& machine = settings->machine;
    command->add_option("-d,--size", setting.size, "parameters")->check(CLI::PositiveNumber);
    command->add_option("-P,--ranks", setting.ranks, "workers")->check(CLI::Range(1.0, 1e6));
    command->add_option("--density", setting.density, "share that is synchronized")
        ->check(CLI::Range(1e-9, 1.0));
    command
        ->add_option("-H,--inner-steps", setting.inner_steps,
                     "of which diloco and gasloc end a round with an exchange; a step is one of them")
        ->check(CLI::Range(1.0, 1e6));
    command->add_option("--law", settings->law, "which workers exchange in gasloc's rounds")
        ->check(
            CLI::IsMember({"pairs", "two_peers", "ring", "exponential", "hypercube", "complete", "none"}));
    command->add_option("--group", setting.group, "ranks in each group, of scape-hierarchy; 0: sqrt(P)")
        ->check(CLI::NonNegativeNumber);
    command->add_option("--compute", setting.compute, "seconds of forward and backward")
        ->check(CLI::NonNegativeNumber);
    command->add_option("--bandwidth", machine.bandwidth, "of a rank's link, bytes a second")
        ->check(CLI::PositiveNumber);
    command->add_option("--latency", machine.latency, "seconds an exchange")->check(CLI::NonNegativeNumber);
    command->add_option("--overhead", machine.overhead, "seconds a message")->check(CLI::NonNegativeNumber);
    command->add_option("--memory", machine.memory, "bytes a second of a rank's passes")
        ->check(CLI::PositiveNumber);
    command->add_option("--transport", machine.transport, "seconds of processor a byte sent")
        ->check(CLI::NonNegativeNumber);
    command
        ->add_option("--irregular", machine.irregular, "seconds a cache line gathered from or scattered to")
        ->check(CLI::NonNegativeNumber);
    command->footer("The defaults of the machine are a GH200's.\n"
                    "Example: 1.8e9 parameters on 64 workers over 10 Gbit/s, with 100 ms of compute\n"
                    "  truestep model predict --size 1.8e9 --ranks 64 --bandwidth 1.25e9 --latency 50e-6 "
                    "--compute 0.1\n"
                    "The same with an exchange every 100 steps, of gasloc with two neighbours\n"
                    "  truestep model predict --size 1.8e9 --ranks 64 --bandwidth 1.25e9 --latency 50e-6 "
                    "--compute 0.1 \\\n      --inner-steps 100 --law two_peers");
    command->callback([settings, &status] {
        settings->setting.law = problem::gasloc::parse_law(settings->law);
        problem::gasloc::check_law(settings->setting.law, static_cast<int>(settings->setting.ranks));
        predict(settings->setting, settings->machine);
        status = all_passed;
    });
}

struct Files {
    std::vector<std::string> measured;
    std::vector<std::string> checked;
    std::string folder;
};

void add_fit(CLI::App& model, int& status) {
    CLI::App* command = model.add_subcommand("fit", "a machine from what bench_peers --json has measured");
    auto files = std::make_shared<Files>();
    command->add_option("files", files->measured, "to fit to")->required()->check(CLI::ExistingFile);
    command->add_option("--check", files->checked, "to compare with only")->check(CLI::ExistingFile);
    command->footer("Example:\n"
                    "  truestep model fit bench/results/shaped_18eb4eb/*_1048576.json "
                    "bench/results/shaped_18eb4eb/*_16777216.json \\\n"
                    "      --check bench/results/shaped_18eb4eb/*_4194304.json");
    command->callback([files, &status] {
        fit_and_check(files->measured, files->checked);
        status = all_passed;
    });
}

void add_plots(CLI::App& model, int& status) {
    CLI::App* command = model.add_subcommand("plots", "the plots of docs/cost-model.md, as SVG");
    auto files = std::make_shared<Files>();
    command->add_option("folder", files->folder, "where to write them")->required();
    command
        ->add_option("--measured", files->measured,
                     "files of bench_peers --json, for measured beside predicted")
        ->check(CLI::ExistingFile);
    command->footer("Example:\n"
                    "  truestep model plots docs/plots --measured bench/results/shaped_18eb4eb/*.json");
    command->callback([files, &status] {
        write_plots(files->folder, files->measured);
        status = all_passed;
    });
}

void add_model(CLI::App& app, int& status, const std::vector<std::string>& /*arguments*/) {
    CLI::App* command =
        app.add_subcommand("model", "what a step costs, by the formulas of docs/cost-model.md");
    command->require_subcommand(1);
    command->option_defaults()->always_capture_default();
    add_predict(*command, status);
    add_fit(*command, status);
    command->add_subcommand("paper", "the paper's settings at GH200-like figures")->callback([&status] {
        paper();
        status = all_passed;
    });
    command->add_subcommand("scale", "out to 16,384 workers and slow links: what breaks first")
        ->callback([&status] {
            scale();
            status = all_passed;
        });
    add_plots(*command, status);
    command->footer("Exit status: 0 printed, 2 bad input or usage.\n"
                    "Examples:\n"
                    "  truestep model predict --size 1.8e9 --ranks 64 --density 0.01 --bandwidth 1.25e9\n"
                    "  truestep model scale");
}

} // namespace

} // namespace truestep::model

int main(int count, char** values) {
    return truestep::gate::subcommand_main("model", count, values, truestep::model::add_model);
}
