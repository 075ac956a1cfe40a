// Computes one batch's loss and gradient from raw fp32 parameters, for comparison with other
// programs, and times it.
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <span>
#include <string>

#include <CLI/CLI.hpp>

#include <truestep/problem/error.hpp>
#include <truestep/training/draw.hpp>
#include <truestep/training/model.hpp>

namespace {

using namespace truestep;

struct ProbeOptions {
    training::Shape shape{65};
    std::size_t windows = 8;
    std::string folder;
    int timed = 0;
};

template <class Value>
void write(const std::string& path, const std::vector<Value>& values) {
    const std::span bytes = std::as_bytes(std::span(values));
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    if (!file)
        throw Error("cannot write " + path);
}

std::vector<std::uint8_t> text_of(std::size_t size, std::size_t symbols) {
    std::vector<std::uint8_t> text;
    for (std::size_t i = 0; i < size; ++i)
        text.push_back(static_cast<std::uint8_t>(training::drawn({9, i}) % symbols));
    return text;
}

/// Writes files of parameters, inputs, targets and gradient; prints the loss, and seconds of each
/// pass.
void probe(const ProbeOptions& asked) {
    auto parameters = training::initial_parameters(asked.shape, 1);
    for (std::size_t i = 0; i < parameters.size(); ++i) // so that no norm is 1
        parameters[i] += static_cast<float>(training::drawn({3, i}) % 201) * 1e-3F - 0.1F;
    const auto text = text_of(asked.windows * asked.shape.context + 1, asked.shape.symbols);
    const std::vector<std::uint8_t> inputs(text.begin(), text.end() - 1);
    const std::vector<std::uint8_t> targets(text.begin() + 1, text.end());
    training::Model<float> model(asked.shape, asked.windows);
    std::vector<float> gradient(parameters.size());
    std::printf("%.9g\n", model.loss_and_gradient(parameters, {inputs, targets}, gradient));
    if (!asked.folder.empty()) {
        write(asked.folder + "/parameters", parameters);
        write(asked.folder + "/inputs", inputs);
        write(asked.folder + "/targets", targets);
        write(asked.folder + "/gradient", gradient);
    }
    using Clock = std::chrono::steady_clock;
    for (int turn = 0; turn < asked.timed; ++turn) {
        const auto begin = Clock::now();
        model.loss_and_gradient(parameters, {inputs, targets}, gradient);
        std::printf("%.9g\n", std::chrono::duration<double>(Clock::now() - begin).count());
    }
}

} // namespace

int main(int count, char** values) {
    ProbeOptions asked;
    CLI::App app("One batch's loss and gradient, in files of raw values, and the seconds of more of them.");
    app.add_option("--symbols", asked.shape.symbols, "of the model");
    app.add_option("--context", asked.shape.context, "of the model");
    app.add_option("--width", asked.shape.width, "of the model");
    app.add_option("--layers", asked.shape.layers, "of the model");
    app.add_option("--heads", asked.shape.heads, "of the model");
    app.add_option("--batch", asked.windows, "windows");
    app.add_option("--folder", asked.folder, "where to write parameters, inputs, targets and gradient");
    app.add_option("--timed", asked.timed, "so many times more, timed");
    CLI11_PARSE(app, count, values);
    try {
        probe(asked);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "training_probe: %s\n", error.what());
        return 2;
    }
    return 0;
}
